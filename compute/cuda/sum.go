package cuda

import "memra/compute"

// Add: s takes the place of x. A residual stream may exceed what f16 holds, so a matmul reads it scaled as it reads gates, from memory of
// this layer, however old the place is.
func (s *step) Add(x, y compute.Tensor, scale float32) compute.Tensor {
	s.even(x.Width)
	in, add := s.asRows(x), s.asRows(y)
	sum := x
	sum.Mem = s.buffer(buffer{home: s.at, rows: in, scale: gateScale})
	s.launch("add", perRow(x.Width, x.Rows), in.arg(), in.arg(), add.arg(), i32(x.Width), f32(scale))
	return sum
}

// Columns copies.
func (s *step) Columns(x compute.Tensor, from, width int) compute.Tensor {
	s.even(x.Width)
	s.even(from)
	s.even(width)
	in := s.asRows(x)
	y, m := s.newRows(x.Rows, width)
	s.launch("columns", perRow(width, x.Rows), m.rows.arg(), in.arg(), i32(width), i32(x.Width), i32(from))
	return y
}
