package cpu

import "memra/compute"

// Logits gathers the rows that ask and multiplies them, with more of their bits than other matmuls take: a rounding here goes
// straight into a probability, and changes the best token where two are close. Each row is multiplied as two, what its
// quantisation keeps and what it loses, and the products are added:
//
//	y = W·x + W·(x - d*q)    d, q as quantised (panel.go): about 16 bits of x
//
// A weight is read once for both. On SmolLM2-135M this takes a third of the divergence from float32 away; decoding, which waits
// for memory, pays nothing. Float weights take x as it is. Where nothing but tokens is drawn, few of the second products matter (rough).
func (s *step) Logits(b *compute.Batch, x compute.Tensor, w compute.Weight) compute.Tensor {
	p, n := w.Mem.(*packed), len(b.Logits)
	rows, m := s.tensor(n, x.Width)
	for i, r := range b.Logits {
		copy(m.row(i, x.Width), s.ready(x).row(int(r), x.Width))
	}
	if p.layout.float {
		return s.MatMul(rows, w)
	}
	if s.roughly && n > 1 && w.Bias.IsZero() && s.measure(p) { // one row waits for the weight's bytes
		return s.roughLogits(rows, w)
	}
	bias := w.Bias
	w.Bias = compute.Vector{} // once, and not to both products
	s.quantize(m, n, x.Width)
	twice, tm := s.tensor(2*n, x.Width)
	s.eachRow(n, func(i int) {
		copy(tm.row(2*i, x.Width), m.row(i, x.Width))
		m.lost(tm.row(2*i+1, x.Width), i)
	})
	both := s.MatMul(twice, w)
	y, ym := s.tensor(n, p.n)
	s.eachDearRow(n, func(i int) {
		s.kernels.add(ym.row(i, p.n), mem(both).row(2*i, p.n), mem(both).row(2*i+1, p.n))
		if !bias.IsZero() {
			s.kernels.add(ym.row(i, p.n), ym.row(i, p.n), values(bias))
		}
	})
	return y
}

// lost is what row r loses when it is quantised: x - d*q, the product rounded, then the difference.
func (b *buffer) lost(dst []float32, r int) {
	blocks := len(dst) / blockLen
	x, panel := b.row(r, len(dst)), b.panels[r/panelRows*blocks:][:blocks]
	for at := range panel {
		d, q := panel[at].d[r%panelRows], &panel[at].q[r%panelRows]
		in, out := (*[blockLen]float32)(x[at*blockLen:]), (*[blockLen]float32)(dst[at*blockLen:])
		for i, v := range in {
			out[i] = v - float32(d*float32(q[i]))
		}
	}
}
