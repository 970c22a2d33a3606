package cuda

import (
	"testing"

	"memra/compute"
)

func TestKeptRowsOutliveTheirStepOnTheGPU(t *testing.T) {
	d := gpu(t)
	const width = 200
	m, err := d.NewRows(5, width)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	first, second := random(19*width, 1), random(4*width, 2)
	for range 3 { // eager, captured, replayed
		d.compute(t, func(s *step) compute.Tensor {
			x := s.tensor(first, width)
			s.Keep(m, x, []int32{18, 0, 7, 7, 3}, []int32{4, 3, 2, 1, 0})
			return x
		})
		d.compute(t, func(s *step) compute.Tensor {
			x := s.tensor(second, width)
			s.Keep(m, x, []int32{2}, []int32{4})
			return x
		})
		got := d.compute(t, func(s *step) compute.Tensor { return s.Kept(m, []int32{0, 4, 3, 3}) })
		var want []float32
		for _, row := range [][]float32{first[3*width:], second[2*width:], first, first} {
			want = append(want, row[:width]...)
		}
		bitsEqual(t, "kept rows", got, want)
	}
}
