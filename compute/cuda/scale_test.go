package cuda

import (
	"math"
	"testing"

	"memra/compute"
	"memra/gguf"
)

func TestScaledAndCappedValuesAgreeWithFloat64(t *testing.T) {
	d := gpu(t)
	const rows, width = 9, 1544
	x := random(rows*width, 1)
	for i := range x {
		x[i] *= 40
	}
	for _, c := range []struct{ scale, cap float32 }{{1, 0}, {0.0123, 0}, {1, 30}, {0.25, 5}} {
		want := make([]float64, len(x))
		for i, v := range x {
			if want[i] = float64(v) * float64(c.scale); c.cap > 0 {
				want[i] = float64(c.cap) * math.Tanh(want[i]/float64(c.cap))
			}
		}
		got := d.compute(t, func(s *step) compute.Tensor { return s.Scale(s.tensor(x, width), c.scale, c.cap) })
		closeTo(t, "scaled", got, want, 5e-7)
	}
}

func TestABiasIsAddedOnceToEachProductOnTheGPU(t *testing.T) {
	d := gpu(t)
	const rows, n, k = 21, 96, 128
	x, bias := random(rows*k, 2), random(n, 3)
	w, err := d.Pack(gguf.Q8_0, n, k, blocks(t, gguf.Q8_0, n, k, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
	for r := range rows {
		for o := range n {
			plain[r*n+o] += bias[o]
		}
	}
	w.Bias = d.Vector(bias)
	got := d.compute(t, func(s *step) compute.Tensor {
		in := s.tensor(x, k)
		y := s.MatMul(in, w)
		s.MatMul(in, w) // a neighbour
		s.asRows(y)     // read twice
		return y
	})
	bitsEqual(t, "product with a bias", got, plain)
}
