package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/gguf"
)

func TestValuesBendTowardsTheCap(t *testing.T) {
	for _, c := range []struct{ scale, cap float32 }{{1, 0}, {0.0123, 0}, {1, 30}, {1, 0.01}, {7, 50}} {
		d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(8, 8))
		var x []float32
		for r, row := range runStep(t, d, func(s *step) compute.Tensor {
			in, values := rowsOf(s, rng, 11, 70)
			for i := range values {
				values[i] *= float32(math.Pow(10, float64(i%7-3)))
			}
			values[3], values[4] = float32(math.Inf(1)), float32(math.Inf(-1))
			x = append(x, values...)
			return s.Scale(in, c.scale, c.cap)
		}) {
			for i, got := range row {
				exact := float64(x[r*70+i]) * float64(c.scale)
				limit := 0x1p-24 * math.Abs(exact)
				if c.cap > 0 {
					exact = float64(c.cap) * math.Tanh(exact/float64(c.cap))
					limit = 4e-7 * float64(c.cap)
				}
				if got := float64(got); got != exact && !(math.Abs(got-exact) <= limit) {
					t.Fatalf("scale %v, cap %v: %v becomes %v, float64 gives %v, at most %v apart", c.scale, c.cap, x[r*70+i], got, exact, limit)
				}
			}
		}
	}
}

func TestABiasIsAddedOnceToEachProduct(t *testing.T) {
	const rows, n, k = 21, 70, 64
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.F32} {
		d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(9, 9))
		matrix, bias := make([]float32, n*k), make([]float32, n)
		for i := range matrix {
			matrix[i] = float32(rng.NormFloat64())
		}
		for i := range bias {
			bias[i] = float32(rng.NormFloat64())
		}
		data := make([]byte, n*bytesOf(t, typ, k))
		for r := range n {
			format(t, typ).Quantize(data[r*bytesOf(t, typ, k):][:bytesOf(t, typ, k)], matrix[r*k:][:k], nil)
		}
		w, err := d.Pack(typ, n, k, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		product := func(w compute.Weight, logits bool) [][]float32 {
			return runStep(t, d, func(s *step) compute.Tensor {
				in, _ := rowsOf(s, rand.New(rand.NewPCG(1, 1)), rows, k)
				if !logits {
					return s.MatMul(in, w)
				}
				b := new(compute.Batch)
				for r := range rows {
					b.Add(0, r, -1, true)
				}
				return s.Logits(b, in, w)
			})
		}
		for _, logits := range []bool{false, true} {
			var want [][]float32
			for _, row := range product(w, logits) {
				sum := make([]float32, n)
				for o := range sum {
					sum[o] = row[o] + bias[o]
				}
				want = append(want, sum)
			}
			biased := w
			biased.Bias = d.Vector(bias)
			for r, row := range product(biased, logits) {
				wantEqual(t, "a product with a bias", row, want[r])
			}
		}
	}
}

// bytesOf is how many bytes a row has.
func bytesOf(t *testing.T, typ gguf.Type, width int) int {
	t.Helper()
	size, err := format(t, typ).RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	return size
}
