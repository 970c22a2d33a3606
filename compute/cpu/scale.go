package cpu

import "memra/compute"

// Scale: the product rounds once; a cap follows. Logits stay rough.
func (s *step) Scale(x compute.Tensor, scale, cap float32) compute.Tensor {
	y, m := s.tensor(x.Rows, x.Width)
	in := x.Mem.(*buffer)
	s.eachRow(x.Rows, func(r int) { s.scaleRow(m.row(r, x.Width), in.row(r, x.Width), scale, cap) })
	if in.rough != nil {
		m.rough = in.rough.scaled(scale, cap)
	}
	return y
}

func (s *step) scaleRow(y, x []float32, scale, cap float32) {
	for i, v := range x {
		y[i] = v * scale
	}
	if cap > 0 {
		s.kernels.bend(y, y, cap)
	}
}

// bendGo is y = cap*tanh(x/cap), a value after another:
//
//	z = x * (2/cap)    y = cap - (2*cap) / (1 + exp(z))
//
// The error is of the cap, not of the value: at most 4e-7 of it, two roundings near it and exp's.
func bendGo(y, x []float32, cap float32) {
	twice, outer := bendFactors(cap)
	for i, v := range x {
		y[i] = cap - outer/(1+exp(float32(v*twice)))
	}
}

func bendFactors(cap float32) (twice, outer float32) { return float32(2 / float64(cap)), 2 * cap }
