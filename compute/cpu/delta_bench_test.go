package cpu

import (
	"fmt"
	"testing"
	"time"

	"memra/compute"
	"memra/gguf"
)

// A prompt through one gated delta net layer of Qwen3.5-9B: what the recurrence and its convolution cost beside the layer's matmuls.
func BenchmarkDeltaLayerOf9B(b *testing.B) {
	const width, hidden, rows = 4096, 12288, 256
	shape := compute.DeltaShape{Layers: 1, KeyHeads: 16, ValueHeads: 32, HeadDim: 128, Taps: 4}
	for _, format := range []gguf.Type{gguf.Q8_0, gguf.Q4_K} {
		b.Run(fmt.Sprint(format), func(b *testing.B) {
			d, err := Open(0)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			c := newDeltaCase(1, shape, rows, false)
			life := c.begin(b, d, 2)
			var batch compute.Batch
			for r := range rows {
				batch.Add(0, r, 0, false)
			}
			life.delta.Tables[0] = []int32{0, -1, -1, 1}
			var weights []compute.Weight
			for _, w := range [][2]int{{shape.Width(), width}, {width, width}, {width, width}, {hidden, width}, {hidden, width}, {width, hidden}} {
				size, _ := known(format).RowBytes(w[1])
				packed, err := d.Pack(format, w[0], w[1], make([]byte, w[0]*size), nil)
				if err != nil {
					b.Fatal(err)
				}
				weights = append(weights, packed)
			}
			tensor := func(width int, v []float32) compute.Tensor {
				return compute.Tensor{Rows: rows, Width: width, Mem: &buffer{rows: v}}
			}
			in := append(append([]float32(nil), c.x...), c.x...) // as wide as the widest matmul asks for
			gain := d.Vector(make([]float32, shape.HeadDim))
			var matmuls, delta time.Duration
			for b.Loop() {
				s := &d.step
				s.begin()
				begin := time.Now()
				for _, w := range weights {
					s.MatMul(tensor(w.Width, in[:rows*w.Width]), w)
				}
				matmuls += time.Since(begin)
				begin = time.Now()
				y := s.CausalConv(&batch, life.delta, tensor(shape.Width(), c.x), compute.Vector{Mem: c.w})
				o := s.GatedDelta(&batch, life.delta, y, tensor(shape.ValueHeads, c.beta), tensor(shape.ValueHeads, c.alpha), c.gates)
				s.GatedNorm(o, tensor(o.Width, c.x), gain, 1e-6)
				delta += time.Since(begin)
			}
			b.ReportMetric(matmuls.Seconds()*1e3/float64(b.N), "matmul-ms")
			b.ReportMetric(delta.Seconds()*1e3/float64(b.N), "delta-ms")
			b.ReportMetric(100*delta.Seconds()/matmuls.Seconds(), "%")
		})
	}
}
