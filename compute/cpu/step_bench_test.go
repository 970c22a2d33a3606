package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// BenchmarkRows is the operations beside matmul and attention, on one thread, of a model of width 576, with 9/3 heads of 64, and
// hidden width 1536.
func BenchmarkRows(b *testing.B) {
	rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: 64, Neighbour: true})
	if err != nil {
		b.Fatal(err)
	}
	for _, k := range sets {
		for _, rows := range []int{1, 512} {
			d := openTest(b, 1, k)
			s := newScene(rand.New(rand.NewPCG(1, 1)), 9, 3, 64, 0, compute.KVF16, rows)
			kv, gain := s.cache(b, d), d.Vector(make([]float32, 576))
			runStep(b, d, func(o *step) compute.Tensor {
				batch, tensors := s.batch(o, s.whole(0)[0])
				q, key, value := tensors[0], tensors[1], tensors[2]
				hidden, m := drawn(o, rand.New(rand.NewPCG(2, 2)), rows, 1536)
				for _, c := range []struct {
					name string
					op   func()
				}{
					{"AddNorm", func() { o.AddNorm(q, q, gain, 1e-5) }},
					{"QKNormRope", func() { o.QKNormRope(batch, q, key, compute.QK{HeadDim: 64, Rope: rope}) }},
					{"AppendKV", func() { o.AppendKV(batch, kv, key, value) }},
					{"SwiGLU", func() { o.SwiGLU(hidden, hidden) }},
					{"GeGLU", func() { o.GeGLU(hidden, hidden) }},
					{"quantize", func() { m.panels = nil; o.quantize(m, rows, 1536) }},
				} {
					b.Run(fmt.Sprintf("%s/rows=%d/%s", c.name, rows, k.name), func(b *testing.B) {
						b.ReportAllocs()
						for b.Loop() {
							o.Layer(0)
							c.op()
						}
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
					})
				}
				return q
			})
		}
	}
}
