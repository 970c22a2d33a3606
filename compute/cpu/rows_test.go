package cpu

import (
	"math/rand/v2"
	"testing"

	"memra/compute"
)

func TestKeptRowsOutliveTheirStep(t *testing.T) {
	const width = 48
	d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(8, 8))
	m, err := d.NewRows(5, width)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var first, second []float32
	runStep(t, d, func(s *step) compute.Tensor {
		x, values := rowsOf(s, rng, 19, width)
		first = append(first, values...)
		s.Keep(m, x, []int32{18, 0, 7, 7, 3}, []int32{4, 3, 2, 1, 0})
		return x
	})
	runStep(t, d, func(s *step) compute.Tensor {
		x, values := rowsOf(s, rng, 4, width)
		second = append(second, values...)
		s.Keep(m, x, []int32{2}, []int32{4})
		return x
	})
	rows := runStep(t, d, func(s *step) compute.Tensor { return s.Kept(m, []int32{0, 4, 3, 3}) })
	for i, want := range [][]float32{first[3*width:], second[2*width:], first, first} {
		wantEqual(t, "a row", rows[i], want[:width])
	}
	if _, err := d.NewRows(0, width); err == nil {
		t.Error("memory for no row, want an error")
	}
}
