package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// f32Weight packs random values that f16 cannot hold.
func f32Weight(t testing.TB, d *Device, n, k int, seed uint64) (compute.Weight, []float32) {
	t.Helper()
	values := random(n*k, seed)
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	w, err := d.Pack(gguf.F32, n, k, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.Mem.(*packed).layout != layoutF32 {
		t.Fatal("the weight became f16")
	}
	return w, values
}

// ordered is a product in the order that kernels/matmul_f32.cu states. A fused multiplication and addition of float64 is exact but for its end,
// for a half times a float32 has 35 bits.
func ordered(x, w []float32) float32 {
	var sum [32]float32
	for i, v := range x {
		sum[i%32] = float32(math.FMA(float64(v), float64(w[i]), float64(sum[i%32])))
	}
	for step := 16; step > 0; step /= 2 {
		for l := range step {
			sum[l] += sum[l+step]
		}
	}
	return sum[0]
}

func TestMatMulByFloat32AddsInItsStatedOrder(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct{ n, k, rows int }{
		{256, 2048, 16}, {256, 2048, 64}, {1, 2048, 1}, {1, 2048, 64}, {10, 1352, 20}, {9, 8, 3}, {128, 2880, 7}, {17, 264, 9}, {3, 7168, 17}, {40, 1024, 130},
	} {
		w, values := f32Weight(t, d, c.n, c.k, 31)
		x := random(c.rows*c.k, 37)
		for i, v := range x {
			x[i] = half(v)
		}
		want := make([]float32, c.rows*c.n)
		parallel(c.rows, func(r int) {
			for o := range c.n {
				want[r*c.n+o] = ordered(x[r*c.k:][:c.k], values[o*c.k:][:c.k])
			}
		})
		got := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, c.k), w) })
		bitsEqual(t, fmt.Sprintf("%d outputs of %d, %d rows", c.n, c.k, c.rows), got, want)
	}
}

// BenchmarkMatMulByFloat32 is the products of a router of 256 experts and of a shared expert's gate, with weights that the L2 cache does not hold.
func BenchmarkMatMulByFloat32(b *testing.B) {
	d := gpu(b)
	const k, layers = 2048, 64
	for _, n := range []int{256, 1} {
		var weights []compute.Weight
		for i := range layers {
			w, _ := f32Weight(b, d, n, k, uint64(i))
			weights = append(weights, w)
		}
		for _, rows := range []int{1, 16, 64, 512, 2048} {
			b.Run(fmt.Sprintf("%d outputs, %d rows", n, rows), func(b *testing.B) {
				t := d.seconds(b, func(s *step) {
					for i, w := range weights {
						s.Layer(i)
						x, _ := s.newOperand(rows, k, 1)
						s.MatMul(x, w)
					}
				})
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(t*1e6/layers, "us")
			})
		}
	}
}
