package cuda

import (
	"testing"

	"memra/compute"
)

// A gated delta net of Qwen3.5-9B without its matmuls: a prompt, and a token of each of several sequences. The time is of 24 layers in a step,
// by the clock of the host, a layer's share.
func BenchmarkDelta9B(b *testing.B) {
	d := gpu(b)
	shape := compute.DeltaShape{Layers: 1, KeyHeads: 16, ValueHeads: 32, HeadDim: 128, Taps: 4}
	const layers = 24
	for _, c := range []struct {
		name             string
		sequences, depth int
		rows             int // of each
	}{{"prompt of 2048", 1, 0, 2048}, {"8 prompts of 256", 8, 0, 256}, {"1 token", 1, 40, 1}, {"8 drafts", 1, 40, 8}, {"16 tokens", 16, 40, 1}, {"64 tokens", 64, 40, 1}} {
		b.Run(c.name, func(b *testing.B) {
			l := newDeltaLayer(b, d, shape, c.sequences, c.depth+c.rows, 2*c.sequences, false)
			var batch compute.Batch
			for s := range c.sequences {
				l.tables[s] = make([]int32, (c.depth+c.rows+compute.Page-1)/compute.Page)
				for i := range l.tables[s] {
					l.tables[s][i] = -1
				}
				l.tables[s][len(l.tables[s])-1], l.tables[s][0] = int32(2*s+1), int32(2*s)
				for r := range c.rows {
					batch.Add(int32(s*l.rows+c.depth+r), c.depth+r, s, false)
				}
			}
			delta := compute.Delta{Memory: l.memory, Tables: l.tables}
			step := func(layers int) {
				_, err := d.Run(func(ops compute.Ops) compute.Tensor {
					x, beta, alpha := ops.Embed(&batch, l.x, 1), ops.Embed(&batch, l.beta, 1), ops.Embed(&batch, l.alpha, 1)
					for i := range layers {
						ops.Layer(i)
						ops.GatedDelta(&batch, delta, ops.CausalConv(&batch, delta, x, l.conv), beta, alpha, l.gates)
					}
					return compute.Tensor{}
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			for range 3 { // as launches, then as a graph
				step(layers)
			}
			for b.Loop() {
				step(layers)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*layers), "us/layer")
		})
	}
}
