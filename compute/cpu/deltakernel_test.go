package cpu

import (
	"math/rand/v2"
	"testing"
)

func TestDeltaKernelsEqualPlainGo(t *testing.T) {
	eachSet(t, lengths, func(t *testing.T, k *kernels, n int, draw func(n int) []float32) {
		x, z := draw(n), draw(n)
		for _, c := range []struct {
			name      string
			got, want func(y []float32)
		}{
			{"addProducts", func(y []float32) { k.addProducts(y, z, x) }, func(y []float32) { addProductsGo(y, z, x) }},
			{"sigmoid", func(y []float32) { k.sigmoid(y, x, z) }, func(y []float32) { sigmoidGo(y, x, z) }},
			{"decay", func(y []float32) { k.decay(y, x, z, 1.5) }, func(y []float32) { decayGo(y, x, z, 1.5) }},
		} {
			got, want := outputs(n), outputs(n)
			c.got(got)
			c.want(want)
			wantEqual(t, c.name, got, want)
		}
	})
}

func TestAddMatrixEqualsPlainGoAtAnyStride(t *testing.T) {
	eachSet(t, []int{0, 1, 3, 16, 40}, func(t *testing.T, k *kernels, depth int, draw func(n int) []float32) {
		rng := rand.New(rand.NewPCG(uint64(depth), 1))
		for range 10 {
			rows, width := rng.IntN(12), 16*rng.IntN(10)
			ly, la, lb := width+rng.IntN(3), depth+rng.IntN(5), width+rng.IntN(20)
			a, b, start := draw(rows*la+depth), draw(depth*lb+width), draw(rows*ly+width)
			got, want := append(start, outputs(0)...), append(append([]float32(nil), start...), outputs(0)...)
			k.addMatrix(got, ly, a, la, b, lb, rows, depth, width)
			addMatrixGo(want, ly, a, la, b, lb, rows, depth, width)
			wantEqual(t, "addMatrix", got, want)
		}
	})
}
