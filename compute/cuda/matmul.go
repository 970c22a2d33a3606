package cuda

import (
	"fmt"
	"math"
	"math/bits"

	"memra/compute"
)

// MatMul multiplies an operand. On Hopper, weights of one layout that multiply the same operand one after another are one launch.
func (s *step) MatMul(x compute.Tensor, w compute.Weight) compute.Tensor {
	p := w.Mem.(*packed)
	in := s.asOperand(x)
	y, out := s.newRows(x.Rows, p.n)
	if !w.Bias.IsZero() {
		out.bias = w.Bias.Mem.(*vector).at
	}
	switch {
	case p.layout == layoutF32:
		s.launch("matmul_f32", f32Shape(p.n, x.Rows),
			out.rows.arg(), in.operand.arg(), p.data.arg(), i32(p.n), i32(p.k), i32(x.Rows), i32(in.tile), f32(1/in.scale))
	case s.target == "sm_90a" && !s.plain:
		s.hopper(x.Rows, in, sibling{out.rows, p})
	default:
		i := min(2, in.tile/16)
		s.launch(p.layout.matmul[i], shape{grid: grid(ceilDiv(p.n, 64), ceilDiv(x.Rows, 8<<i)), block: 128},
			out.rows.arg(), in.operand.arg(), p.data.arg(), p.scales.arg(), i32(p.n), i32(p.ktiles()), i32(x.Rows), i32(in.tile), f32(1/in.scale))
	}
	return y
}

// f32Shape is the launch of matmul_f32.
func f32Shape(n, rows int) shape {
	const stages, deep, outputs = 4, 256, 8 // STAGES, DEEP, OUTPUTS of kernels/matmul_f32.cu
	each := 16                              // rows of a block
	if rows <= 16 {
		each = 8
	}
	return shape{grid: grid(ceilDiv(n, outputs), ceilDiv(rows, each)), block: 128, shared: stages * (deep/8*(16*each+32) + 4*outputs*deep)}
}

// sibling is a weight to multiply by, and where the product goes.
type sibling struct {
	y pointer
	w *packed
}

// siblings are what the last launch multiplies, if it is one of matmul_hopper: it is filled in when none can follow.
type siblings struct {
	in   *buffer
	rows int
	all  []sibling // none: it is another
}

// How matmul_hopper.cu shares its work: the constants there.
const (
	maxSiblings   = 4   // of a launch
	hopperStages  = 16  // at most, of both rings
	hopperSegment = 512 // of K
)

// hopper records a launch of matmul_hopper, or adds a weight to the one just recorded.
func (s *step) hopper(rows int, in *buffer, p sibling) {
	if s.err != nil || rows == 0 {
		return
	}
	g := &s.siblings
	again := len(g.all) > 0 && g.in.operand == in.operand && len(g.all) < maxSiblings && g.all[0].w.layout == p.w.layout && g.all[0].w.k == p.w.k
	if !again {
		s.next()
		g.in, g.rows = in, rows
	}
	g.all = append(g.all, p)
}

// fillIn fills in the last launch.
func (s *step) fillIn() {
	g := &s.siblings
	if len(g.all) == 0 {
		return
	}
	if err := s.hopperLaunch(&s.launches[len(s.launches)-1], g.rows, g.in, g.all); err != nil {
		s.fail(err)
	}
	g.all = g.all[:0]
}

// hopperLaunch fills in a launch.
func (s *step) hopperLaunch(l *launch, rows int, in *buffer, all []sibling) error {
	w := all[0].w
	// Plan of matmul_hopper.cu.
	outputs, depth, held, threads, perMultiprocessor, budget := 128, 2, 2, 320, 2, 108<<10
	switch in.tile {
	case 64:
		outputs, depth, threads, perMultiprocessor, budget = 256, 1, 640, 1, 216<<10
	case 128:
		depth, held, threads, perMultiprocessor, budget = 1, 3, 384, 1, 208<<10
	}
	stage, weights := depth*2*tileK*in.tile, w.layout.piece()*outputs/tileK*w.layout.bytes
	if in.tile == 64 && weights <= 48<<10 {
		held = 3
	}
	weights *= held
	stages := min(hopperStages-held, (budget-weights)/stage)

	tiles, segments := 0, ceilDiv(w.k, hopperSegment)
	for _, p := range all {
		tiles += ceilDiv(p.w.n, outputs) * ceilDiv(rows, in.tile)
	}
	blocks := s.multiprocessors * perMultiprocessor
	whole := wholeTiles(in.tile, tiles, blocks)
	var partials pointer
	if rest := tiles - whole; rest == 0 {
		blocks = min(blocks, tiles)
	} else {
		blocks = min(blocks, tiles*segments)
		if rest*segments*blocks > math.MaxInt32 {
			return fmt.Errorf("cuda: a matmul of %d tiles of %d segments on %d blocks, want a product below 2^31", rest, segments, blocks)
		}
		var err error
		if partials, err = s.partialSums(4 * min(rest, blocks) * segments * outputs * in.tile); err != nil {
			return err
		}
	}
	none := packed{}
	var args [4*maxSiblings + 7]arg
	for i := range maxSiblings {
		p := sibling{0, &none}
		if i < len(all) {
			p = all[i]
		}
		args[4*i], args[4*i+1], args[4*i+2], args[4*i+3] = p.y.arg(), p.w.data.arg(), p.w.scales.arg(), i32(p.w.n)
	}
	rest := (*[7]arg)(args[4*maxSiblings:])
	*rest = [...]arg{in.operand.arg(), partials.arg(), i32(w.ktiles()), i32(rows), i32(whole), i32(stages), f32(1 / in.scale)}
	kernel := s.kernel(w.layout.hopper[bits.TrailingZeros(uint(in.tile/8))])
	l.set(kernel, shape{grid: grid(blocks, 1), block: threads, shared: stages*stage + weights}, args[:])
	return nil
}

// wholeTiles is how many tiles of outputs blocks do not share, for an operand of tiles of so many rows: as many as keep most blocks busy. Of 64
// rows fewer do, for sharing costs twice what it costs of 32.
func wholeTiles(rows, tiles, blocks int) int {
	if rows <= 16 {
		return 0
	}
	least := blocks * 3 / 4
	switch rows {
	case 32:
		least = blocks * 5 / 8
	case 64:
		least = blocks * 3 / 8
	}
	whole := tiles / blocks * blocks
	if tiles-whole >= least || rows == 128 && whole > 0 {
		return tiles
	}
	return whole
}

// partialSums is memory that matmul_hopper shares partial sums through: all ones between launches, which says that nothing is there.
// Launches that were captured keep the memory they know, so it is freed with the device.
func (d *Device) partialSums(bytes int) (pointer, error) {
	if bytes > d.partials.bytes {
		bytes = roundUp(bytes, 16<<20)
		at, err := d.alloc(bytes, "partial sums of matmuls")
		if err != nil {
			return 0, err
		}
		if err := check(d.driver, d.driver.memset(at, 0xff, bytes, d.stream), "cuMemsetD8Async(%d bytes)", bytes); err != nil {
			return 0, d.broken(err)
		}
		d.partials.at, d.partials.bytes = at, bytes
	}
	return d.partials.at, nil
}
