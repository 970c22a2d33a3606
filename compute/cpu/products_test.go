package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// Products that wait for each other are what each is alone, whatever the formats and numbers of rows, and whoever is asked for first.
func TestSiblingsAreComputedAsTheyAreAlone(t *testing.T) {
	const width = 256
	formats := []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.F32, gguf.Q8_0}
	for _, k := range sets {
		for _, threads := range []int{1, 3} {
			d, rng := openTest(t, threads, k), rand.New(rand.NewPCG(5, 5))
			var weights []compute.Weight
			for i, f := range formats {
				w, _ := packedRandom(t, d, rng, f, 20+100*i, width)
				if i == 3 {
					bias := make([]float32, w.Rows)
					for j := range bias {
						bias[j] = float32(rng.NormFloat64())
					}
					w.Bias = d.Vector(bias)
				}
				weights = append(weights, w)
			}
			for _, rows := range []int{1, 3, 5, 19} {
				x := make([]float32, rows*width)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				products := func(together bool) (all [][]float32) {
					runStep(t, d, func(s *step) compute.Tensor {
						var y []compute.Tensor
						for i, w := range weights {
							in, m := s.tensor(rows, width)
							for j, v := range x {
								m.rows[j] = v * float32(i+1)
							}
							y = append(y, s.MatMul(in, w))
							if !together {
								s.settle()
							} else if !y[0].Mem.(*buffer).waits && rows <= panelRows {
								t.Error("a product did not wait for its siblings")
							}
						}
						s.ready(y[len(y)-1])
						for _, y := range y {
							all = append(all, mem(y).rows)
						}
						return y[0]
					})
					return all
				}
				alone := products(false)
				for i := range alone {
					alone[i] = append([]float32(nil), alone[i]...) // the next step has the same memory
				}
				for i, got := range products(true) {
					wantEqual(t, fmt.Sprintf("%s, %d threads, %d rows, product %d", k.name, threads, rows, i), got, alone[i])
				}
			}
		}
	}
}
