package cpu

import "memra/compute"

// Add: the sum rounds once, its product once more.
func (s *step) Add(x, y compute.Tensor, scale float32) compute.Tensor {
	sum, m := s.tensor(x.Rows, x.Width)
	s.eachRow(x.Rows, func(r int) {
		row := m.row(r, x.Width)
		s.kernels.add(row, mem(x).row(r, x.Width), mem(y).row(r, x.Width))
		if scale != 1 {
			for i := range row {
				row[i] *= scale
			}
		}
	})
	return sum
}

// Columns copies.
func (s *step) Columns(x compute.Tensor, from, width int) compute.Tensor {
	y, m := s.tensor(x.Rows, width)
	s.eachRow(x.Rows, func(r int) { copy(m.row(r, width), mem(x).row(r, x.Width)[from:]) })
	return y
}
