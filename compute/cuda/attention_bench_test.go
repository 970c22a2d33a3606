package cuda

import (
	"fmt"
	"slices"
	"testing"

	"memra/compute"
)

// readBandwidth and matrixRate are an H200's: bytes a second of a streaming kernel, and operations of a library's f16 matmul.
const (
	readBandwidth = 4684e9
	matrixRate    = 790e12
)

// attentionBench is a model's attention: 32 query heads, 8 KV heads, layers enough to outgrow the L2 cache.
type attentionBench struct {
	dim, streams, depth, rows, layers int // rows of each stream, the last at position depth-1
	window                            int
	format                            compute.KVFormat
}

// graph captures a step that attends in every layer, and returns it.
func (c attentionBench) graph(b *testing.B, d *Device) *graph {
	const heads, kvHeads = 32, 8
	perStream := ceilDiv(c.depth, compute.Page)
	memory, err := d.NewKV(compute.KVShape{Layers: c.layers, Heads: kvHeads, HeadDim: c.dim, Format: c.format}, perStream*c.streams)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { memory.Close() })
	batch, fill := new(compute.Batch), new(compute.Batch)
	tables := make([][]int32, c.streams)
	for s := range tables {
		for p := range perStream {
			tables[s] = append(tables[s], int32(p*c.streams+s))
		}
		for p := c.depth - c.rows; p < c.depth; p++ {
			batch.Add(0, p, s, false)
		}
	}
	source := min(8, perStream*c.streams) // pages of random keys and values; all others are copies
	table := make([]int32, source)
	for p := range source * compute.Page {
		table[p/compute.Page] = int32(p / compute.Page)
		fill.Add(0, p, 0, false)
	}
	n := source * compute.Page * kvHeads * c.dim
	k, v := random(n, 1), random(n, 2)
	for layer := range c.layers {
		kv := compute.KV{Memory: memory, Layer: layer, Tables: [][]int32{table}}
		d.compute(b, func(s *step) compute.Tensor {
			s.AppendKV(fill, kv, s.tensor(k, kvHeads*c.dim), s.tensor(v, kvHeads*c.dim))
			return compute.Tensor{}
		})
	}
	for p := source; p < perStream*c.streams; p++ {
		memory.Copy(p, p%source)
	}
	some := random(1<<20, 3)
	q := make([]float32, batch.Rows()*heads*c.dim)
	for i := 0; i < len(q); i += copy(q[i:], some) {
	}
	for range 3 { // launched, captured, replayed
		d.compute(b, func(s *step) compute.Tensor {
			in := s.tensor(q, heads*c.dim)
			for layer := range c.layers {
				s.Layer(layer)
				s.Attention(batch, in, compute.KV{Memory: memory, Layer: layer, Tables: tables}, compute.Attn{Window: c.window})
			}
			return compute.Tensor{}
		})
	}
	list := d.graphs.list
	return list[len(list)-1]
}

// time replays a graph and returns seconds a layer.
func (c attentionBench) time(b *testing.B, d *Device, g *graph) float64 {
	var ms float32
	err := d.owner.do(func() error {
		from, s0 := d.driver.eventCreate()
		to, s1 := d.driver.eventCreate()
		for _, s := range []status{s0, s1, d.driver.eventRecord(from, d.stream), d.driver.graphLaunch(g.exec, d.stream), d.driver.eventRecord(to, d.stream), d.driver.eventSynchronize(to)} {
			if err := check(d.driver, s, "timing a graph"); err != nil {
				return err
			}
		}
		var s status
		ms, s = d.driver.eventElapsed(from, to)
		d.driver.eventDestroy(from)
		d.driver.eventDestroy(to)
		return check(d.driver, s, "cuEventElapsedTime")
	})
	if err != nil {
		b.Fatal(err)
	}
	return float64(ms) / 1e3 / float64(c.layers)
}

func BenchmarkAttention(b *testing.B) {
	var cases []attentionBench
	for _, dim := range []int{128, 64, 256} {
		for _, rows := range []int{512, 2048, 8192} {
			cases = append(cases, attentionBench{dim: dim, streams: 1, depth: rows, rows: rows, layers: 2})
		}
	}
	for _, streams := range []int{1, 16, 64} {
		for _, depth := range []int{512, 2048, 8192, 32768, 131072} {
			if streams*depth <= 1<<21 {
				cases = append(cases, attentionBench{dim: 128, streams: streams, depth: depth, rows: 1, layers: max(2, min(32, 1<<18/(streams*depth)))})
			}
		}
	}
	for _, c := range []attentionBench{
		{dim: 64, streams: 1, depth: 32768, rows: 1, layers: 8}, {dim: 256, streams: 1, depth: 32768, rows: 1, layers: 4},
		{dim: 128, streams: 1, depth: 32768, rows: 4, layers: 8}, {dim: 128, streams: 1, depth: 32768, rows: 32, layers: 8},
		{dim: 128, streams: 1, depth: 32768, rows: 512, layers: 2}, {dim: 256, streams: 16, depth: 8192, rows: 1, layers: 4, window: 1024},
	} {
		cases = append(cases, c)
	}
	for _, f := range []compute.KVFormat{compute.KVQ8, compute.KVE4M3} {
		cases = append(cases, attentionBench{dim: 128, streams: 1, depth: 8192, rows: 8192, layers: 2, format: f},
			attentionBench{dim: 128, streams: 1, depth: 32768, rows: 1, layers: 8, format: f},
			attentionBench{dim: 128, streams: 16, depth: 32768, rows: 1, layers: 2, format: f})
	}
	for _, c := range cases {
		b.Run(fmt.Sprintf("dim=%d/streams=%d/depth=%d/rows=%d/window=%d/%v", c.dim, c.streams, c.depth, c.rows, c.window, c.format), func(b *testing.B) {
			d := gpu(b)
			g := c.graph(b, d)
			for range 5 {
				c.time(b, d, g)
			}
			var times []float64
			for b.Loop() {
				times = append(times, c.time(b, d, g))
			}
			slices.Sort(times)
			seconds := times[len(times)/2]
			// Each stream's pages once, scores and values by two matrix products over the causal half.
			seen, products := 0, 0
			for p := c.depth - c.rows; p < c.depth; p++ {
				w := p + 1
				if c.window > 0 {
					w = min(w, c.window)
				}
				products += w
				seen = max(seen, min(c.depth, w+c.rows-1))
			}
			bytes := float64(c.streams) * float64(seen) * 8 * 2 * float64(c.format.RowBytes(c.dim))
			operations := float64(c.streams) * float64(products) * 32 * float64(c.dim) * 4
			b.ReportMetric(seconds*1e6, "us/layer")
			b.ReportMetric(bytes/seconds/1e9, "GB/s")
			b.ReportMetric(operations/seconds/1e12, "TFLOP/s")
			b.ReportMetric(100*max(bytes/readBandwidth, operations/matrixRate)/seconds, "%floor")
			b.ReportMetric(0, "ns/op")
		})
	}
}
