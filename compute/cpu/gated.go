package cpu

import "memra/compute"

// GatedNorm: the norm of a group as norm.go has it, then swigluGo.
func (s *step) GatedNorm(x, z compute.Tensor, g compute.Vector, eps float32) compute.Tensor {
	y, out := s.tensor(x.Rows, x.Width)
	s.eachRow(x.Rows, func(r int) {
		row, in := out.row(r, x.Width), mem(x).row(r, x.Width)
		for at := 0; at < x.Width; at += g.Width {
			s.norm(row[at:][:g.Width], in[at:][:g.Width], values(g), eps)
		}
		s.kernels.swiglu(row, mem(z).row(r, x.Width), row)
	})
	return y
}

// ungated takes the queries out of a gated projection: of each 2*dim values the first dim.
func (s *step) ungated(q compute.Tensor, dim int) compute.Tensor {
	y, out := s.tensor(q.Rows, q.Width/2)
	s.eachRow(q.Rows, func(r int) {
		dst, src := out.row(r, y.Width), mem(q).row(r, q.Width)
		for at := 0; at < y.Width; at += dim {
			copy(dst[at:][:dim], src[2*at:])
		}
	})
	return y
}

// openGates multiplies what a row attended by the sigmoid of its gates: of each 2*dim values of q the last dim.
func (s *step) openGates(y *buffer, q compute.Tensor, dim int) {
	s.eachRow(q.Rows, func(r int) {
		row, gates := y.row(r, q.Width/2), mem(q).row(r, q.Width)
		for at := 0; at < len(row); at += dim {
			s.kernels.sigmoid(row[at:][:dim], row[at:][:dim], gates[2*at+dim:][:dim])
		}
	})
}
