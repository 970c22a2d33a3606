package cuda

import (
	"fmt"

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
// block, whatever rows it has. Where every sequence has few rows, both are one kernel (a step of few rows becomes a program, which has it, too).
func (s *step) GatedDelta(b *compute.Batch, d compute.Delta, x, beta, alpha compute.Tensor, g compute.DeltaGates) compute.Tensor {
	m, t, h := d.Memory.(*deltaMemory), s.tables(compute.KV{Tables: d.Tables}), s.histories(b, d)
	n, dim, heads := x.Rows, m.shape.HeadDim, m.shape.ValueHeads
	rawBeta, rawAlpha, a, dt := s.asRows(beta), s.asRows(alpha), g.A.Mem.(*vector).at, g.DT.Mem.(*vector).at
	c := mem(x).conv
	if c != nil && (mem(x).rows != 0 || c.batch != b) {
		c = nil
	}
	if c != nil && (n > deltaFewRows || h.sequences*heads > deltaFewWorks*s.multiprocessors) && h.longest <= deltaFewRows && dim == deltaFewDim && s.target == "sm_90a" && !s.plain {
		y, out := s.newRows(n, heads*dim)
		s.launch("delta_few_128", shape{grid: grid(heads, n), block: 256},
			h.spare.arg(), flag(g.Grouped), out.rows.arg(), c.x.arg(), c.w.at.arg(), rawBeta.arg(), rawAlpha.arg(), a.arg(), dt.arg(), m.at.arg(), h.at.arg(),
			i32(m.shape.Layers), i32(d.Layer), i32(m.shape.KeyHeads), i32(heads), i32(m.shape.Taps), f32(g.Eps))
		return y
	}
	qkv := s.take(s.at, 2*n*x.Width)
	gates := s.take(s.at, 2*4*n*heads)
	decays := gates + pointer(4*n*heads)
	y, out := s.newRows(n, heads*dim)
	prepare := shape{grid: grid(ceilDiv(x.Width, 1024)+1, n), block: 128}
	keyHeads, valueHeads, width := i32(m.shape.KeyHeads), i32(heads), i32(dim)
	if c != nil {
		s.launch("delta_convolve", prepare, qkv.arg(), gates.arg(), out.rows.arg(), c.x.arg(), c.w.at.arg(), rawBeta.arg(), rawAlpha.arg(), a.arg(), dt.arg(), m.at.arg(),
			h.at.arg(), t.at.arg(), i32(t.stride), i32(m.shape.Layers), i32(d.Layer), keyHeads, valueHeads, width, i32(m.shape.Taps), f32(g.Eps))
	} else {
		s.launch("delta_prepare", prepare, qkv.arg(), gates.arg(), decays.arg(), out.rows.arg(), s.asRows(x).arg(), rawBeta.arg(), rawAlpha.arg(), a.arg(), dt.arg(),
			s.batch(b).slots.arg(), keyHeads, valueHeads, width, f32(g.Eps))
	}
	s.launch(fmt.Sprintf("delta_rule_%d", dim),
		shape{grid: [3]int{dim / deltaColumns(dim), heads * min(1, h.sequences), h.sequences}, block: 256, shared: deltaDims[dim]},
		out.rows.arg(), m.at.arg(), qkv.arg(), gates.arg(), decays.arg(), h.spare.arg(), h.order(), h.starts(), h.positions(), h.slots(),
		t.at.arg(), i32(t.stride), i32(m.shape.Layers), i32(d.Layer), keyHeads, valueHeads, i32(m.shape.Taps), flag(g.Grouped))
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
