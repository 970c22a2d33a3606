package quant

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func BenchmarkDequantize(b *testing.B) { bench(b, false) }
func BenchmarkQuantize(b *testing.B)   { bench(b, true) }

// bench reports bytes of float32 per second.
func bench(b *testing.B, encode bool) {
	const n = 1 << 14
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 0.02)
	}
	for _, id := range slices.Sorted(maps.Keys(formats)) {
		f := formats[id]
		if encode && f.Quantize == nil {
			continue
		}
		b.Run(f.Name, func(b *testing.B) {
			data := make([]byte, n/f.Block*f.Bytes)
			b.SetBytes(4 * n)
			for b.Loop() {
				if encode {
					f.Quantize(data, x, nil)
				} else {
					f.Dequantize(x, data)
				}
			}
		})
	}
}
