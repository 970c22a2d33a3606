package cuda

import (
	"cmp"
	"fmt"
	"slices"

	"memra/compute"
)

// deltaMemory is the pages of delta-net layers, as kernels/delta.cuh lays them out.
type deltaMemory struct {
	device *Device
	shape  compute.DeltaShape
	pages  int
	at     pointer
}

// deltaDims are the widths of heads that the rule is compiled for, and the dynamic shared memory of a block.
var deltaDims = map[int]int{16: deltaShared(16), 32: deltaShared(32), 64: deltaShared(64), 128: deltaShared(128)}

// deltaShared is Slice::bytes of kernels/delta.cu.
func deltaShared(dim int) int {
	columns, rowPitch, pagePitch := deltaColumns(dim), dim+8, compute.Page+8
	products := max(2*compute.Page, dim) * pagePitch
	halves := 2*compute.Page*rowPitch + products + columns*pagePitch
	return 2*halves + 4*(2*compute.Page*(columns+1)+16*(columns+1)+2*compute.Page)
}

// deltaColumns is the value columns of a block.
func deltaColumns(dim int) int { return min(dim, 32) }

// DeltaFormat: see compute.Device.
func (d *Device) DeltaFormat() compute.DeltaFormat { return compute.DeltaF16 }

// NewDelta reserves pages. Nothing reads what has not been written.
func (d *Device) NewDelta(shape compute.DeltaShape, pages int) (compute.DeltaMemory, error) {
	if err := shape.Check(); err != nil {
		return nil, err
	}
	if deltaDims[shape.HeadDim] == 0 || shape.Format != compute.DeltaF16 {
		return nil, fmt.Errorf("cuda: delta-net heads of width %d in format %d, want 16, 32, 64 or 128 in f16 (%d); compute on the CPU",
			shape.HeadDim, shape.Format, compute.DeltaF16)
	}
	m := &deltaMemory{device: d, shape: shape, pages: pages}
	err := d.owner.do(func() (err error) {
		m.at, err = d.alloc(pages*shape.PageBytes(), "%d pages of delta-net states of %d bytes", pages, shape.PageBytes())
		return err
	})
	return m, err
}

func (m *deltaMemory) Shape() compute.DeltaShape { return m.shape }
func (m *deltaMemory) Pages() int                { return m.pages }

// Copy copies a page in all layers. A failure comes back from the next step.
func (m *deltaMemory) Copy(dst, src int) {
	d, n := m.device, m.shape.PageBytes()
	d.owner.do(func() error {
		return d.broken(check(d.driver, d.driver.copyWithin(m.at+pointer(dst*n), m.at+pointer(src*n), n, d.stream), "cuMemcpyDtoDAsync(%d bytes)", n))
	})
}

// Read: see compute.PageMemory.
func (m *deltaMemory) Read(page int, data []byte) error {
	return m.device.readPage(m, m.at, m.shape.PageBytes(), page, data)
}

// Write: see compute.PageMemory.
func (m *deltaMemory) Write(page int, data []byte) error {
	return m.device.writePage(m, m.at, m.shape.PageBytes(), page, data)
}

func (m *deltaMemory) Close() error {
	if m.device.owner == nil { // the device has freed it
		return nil
	}
	return m.device.owner.do(func() error { return m.device.free(m.at) })
}

// historyInput is a batch's rows by sequence and position, on the device: order, sequence, starts (room for twice as many), positions, slots.
type historyInput struct {
	at        pointer
	rows      int
	sequences int
	spare     pointer // states of pages that are not kept; 0: all are
}

func (h *historyInput) part(i int) arg { return (h.at + pointer(4*i*h.rows)).arg() }
func (h *historyInput) order() arg     { return h.part(0) }
func (h *historyInput) sequence() arg  { return h.part(1) }
func (h *historyInput) starts() arg    { return h.part(2) }
func (h *historyInput) positions() arg { return h.part(4) }
func (h *historyInput) slots() arg     { return h.part(5) }

// histories sorts a batch, once a step: rows without a sequence stand at the end.
func (s *step) histories(b *compute.Batch, d compute.Delta) *historyInput {
	if in := s.sorted[b]; in != nil {
		return in
	}
	n := b.Rows()
	in, holes := &historyInput{rows: n}, false
	in.at = s.ints(6*n, func(to []int32) {
		order, sequence, starts := to[:n], to[n:2*n], to[2*n:2*n]
		for i := range order {
			order[i] = int32(i)
		}
		key := func(r int32) uint64 { return uint64(uint32(b.Slots[r]))<<32 | uint64(b.Positions[r]) } // -1 is the largest
		slices.SortFunc(order, func(x, y int32) int { return cmp.Or(cmp.Compare(key(x), key(y)), cmp.Compare(x, y)) })
		last := int32(-1)
		for i, r := range order {
			slot := b.Slots[r]
			sequence[i] = -1
			if slot != last {
				starts = append(starts, int32(i))
				last = slot
			}
			if slot >= 0 {
				in.sequences = len(starts)
				sequence[i] = int32(len(starts) - 1)
				holes = holes || d.Tables[slot][b.Positions[r]/compute.Page] < 0
			}
		}
		if len(starts) == in.sequences {
			starts = append(starts, int32(n))
		}
		copy(to[4*n:], b.Positions)
		copy(to[5*n:], b.Slots)
	})
	if shape := d.Memory.Shape(); holes {
		in.spare = s.take(&s.arenas[0], in.sequences*shape.ValueHeads*shape.HeadDim*shape.HeadDim*6)
	}
	s.sorted[b] = in
	return in
}

// convolution is a CausalConv that nothing has computed yet.
type convolution struct {
	delta compute.Delta
	batch *compute.Batch
	x     pointer
	w     *vector
}

// CausalConv waits for its reader: the gated delta rule prepares what it gives in the same kernel, anybody else gets f32 rows.
func (s *step) CausalConv(b *compute.Batch, d compute.Delta, x compute.Tensor, w compute.Vector) compute.Tensor {
	s.even(x.Width)
	c := &convolution{d, b, s.asRows(x), w.Mem.(*vector)}
	home := s.at
	y := &buffer{home: home, conv: c}
	y.late = func() pointer {
		m, h, t := d.Memory.(*deltaMemory), s.histories(b, d), s.tables(compute.KV{Tables: d.Tables})
		rows := s.take(home, 4*x.Rows*x.Width)
		s.launch("causal_conv", shape{grid: grid(ceilDiv(x.Width, 1024), x.Rows), block: 128},
			rows.arg(), c.x.arg(), c.w.at.arg(), m.at.arg(), h.order(), h.sequence(), h.starts(), h.positions(), h.slots(), t.at.arg(), i32(t.stride),
			i32(m.shape.Layers), i32(d.Layer), i32(m.shape.KeyHeads), i32(m.shape.ValueHeads), i32(m.shape.HeadDim), i32(m.shape.Taps))
		return rows
	}
	return compute.Tensor{Rows: x.Rows, Width: x.Width, Mem: y}
}

// GatedDelta gives f32 rows. What the rule reads is made first, side by side; then each sequence, value head and slice of columns is a
// block, whatever rows it has.
func (s *step) GatedDelta(b *compute.Batch, d compute.Delta, x, beta, alpha compute.Tensor, g compute.DeltaGates) compute.Tensor {
	m, t, h := d.Memory.(*deltaMemory), s.tables(compute.KV{Tables: d.Tables}), s.histories(b, d)
	n, dim, heads := x.Rows, m.shape.HeadDim, m.shape.ValueHeads
	rawBeta, rawAlpha, a, dt := s.asRows(beta), s.asRows(alpha), g.A.Mem.(*vector).at, g.DT.Mem.(*vector).at
	qkv := s.take(s.at, 2*n*x.Width)
	gates := s.take(s.at, 2*4*n*heads)
	decays := gates + pointer(4*n*heads)
	y, out := s.newRows(n, heads*dim)
	prepare := shape{grid: grid(ceilDiv(x.Width, 1024)+1, n), block: 128}
	sizes := []arg{i32(m.shape.KeyHeads), i32(heads), i32(dim)}
	if c := mem(x).conv; c != nil && mem(x).rows == 0 && c.batch == b {
		s.launch("delta_convolve", prepare, append(append([]arg{qkv.arg(), gates.arg(), out.rows.arg(), c.x.arg(), c.w.at.arg(), rawBeta.arg(), rawAlpha.arg(),
			a.arg(), dt.arg(), m.at.arg(), h.at.arg(), t.at.arg(), i32(t.stride), i32(m.shape.Layers), i32(d.Layer)}, sizes...), i32(m.shape.Taps), f32(g.Eps))...)
	} else {
		s.launch("delta_prepare", prepare, append(append([]arg{qkv.arg(), gates.arg(), decays.arg(), out.rows.arg(), s.asRows(x).arg(), rawBeta.arg(), rawAlpha.arg(),
			a.arg(), dt.arg(), s.batch(b).slots.arg()}, sizes...), f32(g.Eps))...)
	}
	s.launch(fmt.Sprintf("delta_rule_%d", dim),
		shape{grid: [3]int{dim / deltaColumns(dim), heads * min(1, h.sequences), h.sequences}, block: 256, shared: deltaDims[dim]},
		out.rows.arg(), m.at.arg(), qkv.arg(), gates.arg(), decays.arg(), h.spare.arg(), h.order(), h.starts(), h.positions(), h.slots(),
		t.at.arg(), i32(t.stride), i32(m.shape.Layers), i32(d.Layer), i32(m.shape.KeyHeads), i32(heads), i32(m.shape.Taps), flag(g.Grouped))
	return y
}

// GatedNorm gives an operand.
func (s *step) GatedNorm(x, z compute.Tensor, g compute.Vector, eps float32) compute.Tensor {
	s.groups(g.Width)
	in, gates := s.asRows(x), s.asRows(z)
	y, m := s.newOperand(x.Rows, x.Width, gateScale)
	s.launch("gated_norm", perRow(x.Width, x.Rows), m.operand.arg(), in.arg(), gates.arg(), g.Mem.(*vector).at.arg(), i32(x.Width), i32(g.Width), i32(m.tile), f32(eps), f32(m.scale))
	return y
}

// groups refuses widths of a norm that are no part of a warp.
func (s *step) groups(width int) {
	if width < 8 || width > 256 || width&(width-1) != 0 {
		s.fail(fmt.Errorf("cuda: a gated norm of %d values, want a power of two from 8 to 256", width))
	}
}

// ungated takes the queries out of a gated projection.
func (s *step) ungated(q compute.Tensor, dim int) compute.Tensor {
	s.even(dim)
	in := s.asRows(q)
	y, out := s.newRows(q.Rows, q.Width/2)
	s.launch("ungated", perRow(y.Width, q.Rows), out.rows.arg(), in.arg(), i32(y.Width), i32(dim))
	return y
}

// openGates multiplies what a row attended by the sigmoid of its gates, in place.
func (s *step) openGates(y compute.Tensor, q compute.Tensor, dim int) {
	o := mem(y)
	s.launch("open_gates", perRow(y.Width, y.Rows), o.operand.arg(), s.asRows(q).arg(), i32(y.Width), i32(dim), i32(o.tile))
}
