package cuda

import "memra/compute"

// Scale works in place, on rows.
func (s *step) Scale(x compute.Tensor, scale, cap float32) compute.Tensor {
	in, twice := s.asRows(x), float32(0)
	if cap > 0 {
		twice = float32(2 / float64(cap))
	}
	y := x
	y.Mem = s.buffer(buffer{home: mem(x).home, rows: in, scale: mem(x).scale})
	s.launch("scale", perRow(x.Width, x.Rows), in.arg(), in.arg(), i32(x.Width), f32(scale), f32(cap), f32(twice))
	return y
}
