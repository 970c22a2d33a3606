package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// BenchmarkAttention is one layer's attention on two threads. GFLOP/s counts 4*dim operations a row, head and key that it sees.
func BenchmarkAttention(b *testing.B) {
	for _, c := range []struct{ heads, kvHeads, dim, rows, depth int }{
		{9, 3, 64, 512, 0}, {9, 3, 64, 1, 512}, {9, 3, 64, 1, 8192}, {9, 3, 64, 16, 8192},
		{4, 1, 256, 512, 0}, {4, 1, 256, 1, 512}, {4, 1, 256, 1, 8192}, {4, 1, 256, 16, 8192},
	} {
		for _, k := range sets {
			b.Run(fmt.Sprintf("heads=%d/%d,dim=%d,rows=%d,depth=%d/%s", c.heads, c.kvHeads, c.dim, c.rows, c.depth, k.name), func(b *testing.B) {
				if k == &goKernels && c.depth+c.rows > 600 {
					b.Skip("plain Go takes too long")
				}
				s := newScene(rand.New(rand.NewPCG(1, 1)), c.heads, c.kvHeads, c.dim, 0, compute.KVF16, c.depth+c.rows)
				d := openTest(b, 2, k)
				kv, places, seen := s.cache(b, d), s.whole(0)[0], 0
				s.step(b, d, kv, places, nil)
				places = places[c.depth:]
				for _, p := range places {
					seen += p.position + 1
				}
				_, err := d.Run(func(ops compute.Ops) compute.Tensor {
					o := ops.(*step)
					batch, tensors := s.batch(o, places)
					for b.Loop() {
						o.Layer(0)
						o.Attention(batch, tensors[0], kv, compute.Attn{})
					}
					return tensors[0]
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(seen)*float64(4*c.heads*c.dim)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
