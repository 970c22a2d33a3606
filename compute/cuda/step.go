package cuda

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"memra/compute"
)

// step records the launches of one step, as compute.Ops. Nothing runs before the family's Forward has returned: then the
// inputs are copied and the list is issued (graph.go).
//
// Tensors of layers i and i+1 lie in different arenas, so a layer's tensors live until the next layer ends. Of few rows many layers
// have arenas of their own: a program waits before memory is used again (mail.go).
type step struct {
	*Device
	arenas [1 + layerArenas]arena // of what comes before the layers, and of layers in turn
	at     *arena
	taken  []span // from them
	rows   int    // of the tallest tensor
	inputs inputs
	fills  inputs // of rotary tables: apart, because few steps have any and all want the same addresses

	launches   []launch
	buffers    []buffer
	siblings   siblings // of the last matmul
	plain      bool     // matmuls and delta nets by the kernels that every GPU has: for tests
	moves      []move
	filling    []*bool // pages of rotary tables that the moves fill
	batches    map[*compute.Batch]*batchInput
	pageTables map[*[]int32]tablesInput
	plans      map[attendKey]*attendPlan
	appended   []appended
	sorted     map[*compute.Batch]*historyInput
	roped      map[*compute.Rope][]*compute.Batch // whose positions their tables have
	err        error                              // the first; later operations do nothing that matters
}

// buffer is the memory of a tensor: f32 rows, an operand, or both. An operand holds the values times scale, a power of two.
type buffer struct {
	home    *arena
	rows    pointer
	operand pointer
	tile    int            // rows of an operand's tile
	scale   float32        // 0 before there is one: 1
	conv    *convolution   // what `late` computes; nil: something else
	late    func() pointer // makes the rows, when somebody reads them; nil: they are there, or the operand is
	bias    pointer        // that rows lack until somebody reads them: so that matmuls of one operand stay neighbours; 0: none
}

// layerArenas is how many arenas layers of few rows have in turn.
const layerArenas = 8

func mem(t compute.Tensor) *buffer { return t.Mem.(*buffer) }

// Run computes one step. See compute.Device. forward runs by the owner: it must not call the device's methods.
func (d *Device) Run(forward func(compute.Ops) compute.Tensor) (rows [][]float32, err error) {
	err = d.owner.do(func() error {
		var t compute.Tensor
		u, err := d.begin(func(s *step) []piece {
			t = forward(s)
			if t.Rows*t.Width == 0 {
				return nil
			}
			return []piece{{s.asRows(t), 4 * t.Rows * t.Width}}
		})
		if err != nil {
			return err
		}
		host, err := d.await(u)
		if err != nil {
			return err
		}
		rows = make([][]float32, t.Rows)
		for r := range rows {
			rows[r] = unsafe.Slice((*float32)(unsafe.Pointer(&host[4*r*t.Width])), t.Width)
		}
		return nil
	})
	return rows, err
}

// Kernels is how many kernels the last step launched, eagerly or as a graph.
func (d *Device) Kernels() (n int) {
	d.owner.do(func() error { n = len(d.step.launches); return nil })
	return n
}

// reset begins a step anew, with one of the host's two places for what it reads.
func (s *step) reset(place int) {
	for i := range s.arenas {
		s.arenas[i].reset()
	}
	s.at = &s.arenas[0]
	s.inputs.reset(place)
	s.fills.reset(place)
	s.launches, s.buffers, s.moves, s.appended, s.err = s.launches[:0], s.buffers[:0], s.moves[:0], s.appended[:0], nil
	s.filling = s.filling[:0]
	s.siblings.all, s.taken, s.rows = s.siblings.all[:0], s.taken[:0], 0
	clear(s.batches)
	clear(s.pageTables)
	clear(s.roped)
	clear(s.plans)
	clear(s.sorted)
}

// fail ends the step with an error, from an operation that cannot return one.
func (s *step) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Layer moves on to the next arena in turn, and ends what it held: the tensors of a layer before the last.
func (s *step) Layer(i int) {
	turns := 2
	if s.hasPrograms() && s.rows <= slices.Max(programTiles) {
		turns = layerArenas
	}
	s.at = &s.arenas[1+i%turns]
	s.at.reset()
}

// launch records a kernel.
func (s *step) launch(name string, sh shape, args ...arg) {
	if s.err != nil || sh.grid[0] == 0 || sh.grid[1] == 0 {
		return
	}
	s.next().set(s.kernel(name), sh, args)
}

// next is room for a launch, of any content.
func (s *step) next() *launch {
	s.fillIn()
	s.launches = slices.Grow(s.launches, 1)[:len(s.launches)+1]
	return &s.launches[len(s.launches)-1]
}

// buffer is a tensor's memory, until the step ends.
func (s *step) buffer(b buffer) *buffer {
	if len(s.buffers) == cap(s.buffers) { // those that are in use stay where they are
		s.buffers = make([]buffer, 0, max(256, 2*cap(s.buffers)))
	}
	s.buffers = append(s.buffers, b)
	return &s.buffers[len(s.buffers)-1]
}

func (s *step) take(home *arena, bytes int) pointer {
	p, err := home.take(s.Device, bytes)
	if err != nil {
		s.fail(err)
	}
	s.taken = append(s.taken, span{at: uint64(p), end: uint64(p) + uint64(bytes)})
	return p
}

func (s *step) extents() extents {
	e := extents{}
	for _, n := range s.taken {
		e[n.at] = max(e[n.at], int(n.end-n.at))
	}
	return e
}

// newRows makes a tensor of f32 rows.
func (s *step) newRows(rows, width int) (compute.Tensor, *buffer) {
	s.rows = max(s.rows, rows)
	b := s.buffer(buffer{home: s.at, rows: s.take(s.at, 4*rows*width)})
	return compute.Tensor{Rows: rows, Width: width, Mem: b}, b
}

// newOperand makes a tensor that is an operand.
func (s *step) newOperand(rows, width int, scale float32) (compute.Tensor, *buffer) {
	b := s.buffer(buffer{home: s.at})
	s.makeOperand(b, rows, width, scale)
	return compute.Tensor{Rows: rows, Width: width, Mem: b}, b
}

func (s *step) makeOperand(b *buffer, rows, width int, scale float32) {
	b.tile, b.scale = tileRows(rows), scale
	b.operand = s.take(b.home, 2*roundUp(rows, b.tile)*paddedK(width))
}

// tileRows is the height of an operand's tiles. More than four rows have no room for two runs in a program (Rows<8> of kernels/strips.cuh), where
// those of a tile of 16 stay in registers.
func tileRows(rows int) int {
	if rows <= 4 {
		return 8
	}
	tile := 16
	for tile < rows && tile < 128 {
		tile *= 2
	}
	return tile
}

// tileK is the K of a tile of a weight or an operand; paddedK rounds up to whole tiles.
const tileK = 64

func paddedK(k int) int { return roundUp(k, tileK) }

// perRow is the grid of kernels that give eight values to a thread, 1024 to a block.
func perRow(width, rows int) shape {
	return shape{grid: grid(ceilDiv(paddedK(width), 1024), rows), block: 128}
}

// asOperand is a tensor as an operand, converted once.
func (s *step) asOperand(t compute.Tensor) *buffer {
	b := mem(t)
	if b.operand == 0 {
		rows := s.asRows(t)
		s.makeOperand(b, t.Rows, t.Width, cmp.Or(b.scale, 1))
		s.even(t.Width)
		s.launch("to_operand", perRow(t.Width, t.Rows), b.operand.arg(), rows.arg(), i32(t.Width), i32(b.tile), f32(b.scale))
	}
	return b
}

// asRows is a tensor as f32 rows, converted once.
func (s *step) asRows(t compute.Tensor) pointer {
	b := mem(t)
	if b.rows == 0 && b.late != nil {
		b.rows = b.late()
	}
	if b.rows == 0 {
		b.rows = s.take(b.home, 4*t.Rows*t.Width)
		s.even(t.Width)
		s.launch("to_rows", perRow(t.Width, t.Rows), b.rows.arg(), b.operand.arg(), i32(t.Width), i32(b.tile), f32(1/b.scale))
	}
	if b.bias != 0 {
		s.even(t.Width)
		s.launch("add_bias", perRow(t.Width, t.Rows), b.rows.arg(), b.bias.arg(), i32(t.Width))
		b.bias = 0
	}
	return b.rows
}

// even refuses widths that kernels reading eight values at once cannot take.
func (s *step) even(width int) {
	if width%8 != 0 {
		s.fail(fmt.Errorf("cuda: a tensor of width %d, want a multiple of 8", width))
	}
}
