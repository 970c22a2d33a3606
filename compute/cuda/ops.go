package cuda

import (
	"fmt"

	"memra/compute"
)

// gateScale is what SwiGLU and GeGLU are stored by: their products may exceed f16's 65504 where a model has large activations,
// and hardly ever need its small numbers. 2^-6 stores up to 4.2e6, and loses at most 2e-6 of a small value.
const gateScale = 1.0 / 64

// Embed: a row as matmuls see it, then one rounding.
func (s *step) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	x, m := s.newRows(b.Rows(), w.Width)
	p, sh := w.Mem.(*packed), shape{grid: grid(b.Rows(), 1), block: 128}
	if p.layout == layoutF32 {
		s.launch("embed_f32", sh, m.rows.arg(), s.batch(b).tokens.arg(), s.answers().arg(), p.data.arg(), i32(p.n), i32(p.k), f32(scale))
	} else {
		s.launch("embed_"+p.layout.name, sh, m.rows.arg(), s.batch(b).tokens.arg(), s.answers().arg(), p.data.arg(), p.scales.arg(), i32(p.n), i32(p.k), i32(p.ktiles()), f32(scale))
	}
	return x
}

// AddNorm: s takes the place of x; n is an operand.
func (s *step) AddNorm(x, y compute.Tensor, g compute.Vector, eps float32) (sum, n compute.Tensor) {
	sum = x
	in, add := s.asRows(x), pointer(0)
	if !y.IsZero() {
		add = s.asRows(y)
		sum.Mem = s.buffer(buffer{home: mem(x).home, rows: in})
	}
	v := g.Mem.(*vector)
	n, m := s.newOperand(x.Rows, x.Width, v.headroom)
	s.addNorm(x, in, add, 0, m, v, eps)
	return sum, n
}

// Norm gives f32 rows. A group of a row is a row of the kernel.
func (s *step) Norm(x compute.Tensor, g compute.Vector, eps float32) compute.Tensor {
	in := s.asRows(x)
	n, m := s.newRows(x.Rows, x.Width)
	groups := compute.Tensor{Rows: x.Rows * (x.Width / g.Width), Width: g.Width}
	s.addNorm(groups, in, 0, m.rows, &buffer{tile: 8, scale: 1}, g.Mem.(*vector), eps)
	return n
}

func (s *step) addNorm(x compute.Tensor, in, add, rows pointer, operand *buffer, g *vector, eps float32) {
	s.even(x.Width)
	s.launch("add_norm", shape{grid: grid(x.Rows, 1), block: 256}, in.arg(), rows.arg(), operand.operand.arg(), in.arg(), add.arg(), g.at.arg(),
		i32(x.Width), i32(operand.tile), f32(eps), f32(operand.scale))
}

// QKNormRope works in place.
func (s *step) QKNormRope(b *compute.Batch, q, k compute.Tensor, o compute.QK) (compute.Tensor, compute.Tensor) {
	if o.HeadDim > 512 || o.HeadDim <= 0 {
		s.fail(fmt.Errorf("cuda: heads of width %d, want at most 512", o.HeadDim))
		return q, k
	}
	gain := func(v compute.Vector) pointer {
		if v.IsZero() {
			return 0
		}
		return v.Mem.(*vector).at
	}
	table, dims, neighbour := pointer(0), 0, false
	if o.Rope != nil {
		table, dims, neighbour = s.rope(o.Rope, b), o.Rope.Dims, o.Rope.Neighbour
	}
	if o.Gated {
		q = s.ungated(q, o.HeadDim)
	}
	qr, kr := s.asRows(q), pointer(0)
	if !k.IsZero() {
		kr = s.asRows(k)
	}
	heads, kvHeads := q.Width/o.HeadDim, k.Width/o.HeadDim
	s.launch("qk_norm_rope", shape{grid: grid(q.Rows, ceilDiv(heads+kvHeads, 8)), block: 256},
		qr.arg(), kr.arg(), s.batch(b).positions.arg(), gain(o.QNorm).arg(), gain(o.KNorm).arg(), table.arg(),
		i32(heads), i32(kvHeads), i32(o.HeadDim), i32(dims), flag(neighbour), f32(o.Eps))
	q.Mem = s.buffer(buffer{home: mem(q).home, rows: qr})
	if !k.IsZero() {
		k.Mem = s.buffer(buffer{home: mem(k).home, rows: kr})
	}
	return q, k
}

// SwiGLU gives an operand.
func (s *step) SwiGLU(g, u compute.Tensor) compute.Tensor { return s.gate("swiglu", g, u) }

// GeGLU gives an operand.
func (s *step) GeGLU(g, u compute.Tensor) compute.Tensor { return s.gate("geglu", g, u) }

func (s *step) gate(kernel string, g, u compute.Tensor) compute.Tensor {
	s.even(g.Width)
	gr, ur := s.asRows(g), s.asRows(u)
	y, m := s.newOperand(g.Rows, g.Width, gateScale)
	s.launch(kernel, perRow(g.Width, g.Rows), m.operand.arg(), gr.arg(), ur.arg(), i32(g.Width), i32(m.tile), f32(m.scale))
	return y
}

// Logits gathers the rows that ask, then multiplies.
func (s *step) Logits(b *compute.Batch, x compute.Tensor, w compute.Weight) compute.Tensor {
	in := s.asOperand(x)
	rows, m := s.newOperand(len(b.Logits), x.Width, in.scale)
	s.even(x.Width)
	s.launch("gather", perRow(x.Width, len(b.Logits)), m.operand.arg(), in.operand.arg(), s.batch(b).logits.arg(), i32(x.Width), i32(m.tile), i32(in.tile))
	return s.MatMul(rows, w)
}
