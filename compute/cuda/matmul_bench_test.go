package cuda

import (
	"fmt"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// readRate is the H200's, in bytes a second: what a floor is measured by.
const readRate = 4684e9

// llama8B is the matmuls of Llama-3.1-8B: those of a layer that are launched together, then the head.
var llama8B = []struct {
	name string
	n    []int
	k    int
}{{"qkv", []int{4096, 1024, 1024}, 4096}, {"o", []int{4096}, 4096}, {"gate+up", []int{14336, 14336}, 4096}, {"down", []int{4096}, 14336}, {"head", []int{128256}, 4096}}

// cloner makes weights of a shape that lie apart: they are packed once, then copied on the device.
type cloner struct {
	d    *Device
	made map[string]*packed
}

func (c *cloner) weight(b *testing.B, format gguf.Type, n, k int) compute.Weight {
	key := fmt.Sprint(format, n, k)
	p := c.made[key]
	if p == nil {
		const some = 256
		piece := blocks(b, format, some, k, 23)
		var data []byte
		for len(data) < n/some*len(piece) {
			data = append(data, piece...)
		}
		data = append(data, piece[:n%some*len(piece)/some]...)
		w, err := c.d.Pack(format, n, k, data, nil)
		if err != nil {
			b.Fatal(err)
		}
		p = w.Mem.(*packed)
		c.made[key] = p
	}
	copied := *p
	bytes := ceilDiv(n, tileK) * p.ktiles() * p.layout.bytes
	err := c.d.owner.do(func() (err error) {
		if copied.data, err = c.d.alloc(bytes, "a copy of a weight"); err != nil {
			return err
		}
		return check(c.d.driver, c.d.driver.copyWithin(copied.data, p.data, bytes, c.d.stream), "cuMemcpyDtoDAsync(%d bytes)", bytes)
	})
	if err != nil {
		b.Fatal(err)
	}
	return compute.Weight{Rows: n, Width: k, Bytes: bytes, Mem: &copied}
}

// seconds is the time of a graph of what f records, the best of some.
func (d *Device) seconds(b *testing.B, f func(s *step)) (best float64) {
	b.Helper()
	for range 3 { // until it is a graph
		d.compute(b, func(s *step) compute.Tensor {
			f(s)
			return compute.Tensor{}
		})
	}
	for range 5 {
		err := d.owner.do(func() error {
			t, err := d.elapsed(func() error { return d.issue(d.step.launches) })
			if best == 0 || t < best {
				best = t
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return best
}

// BenchmarkMatMulOfLlama8B prints, for each shape and for a whole step of 32 layers and the head, microseconds, GB/s of packed
// weights, TFLOP/s, and the share of the floor: bytes over the measured read bandwidth. Weights are apart in memory, so
// that caches do not hold them. go test -run - -bench Llama8B -benchtime 1x
func BenchmarkMatMulOfLlama8B(b *testing.B) {
	d := gpu(b)
	for _, format := range []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.Q6_K, gguf.BF16} {
		c := cloner{d, map[string]*packed{}}
		var groups [][]compute.Weight // 32 layers of four, then the head
		for range 32 {
			for _, m := range llama8B[:4] {
				var g []compute.Weight
				for _, n := range m.n {
					g = append(g, c.weight(b, format, n, m.k))
				}
				groups = append(groups, g)
			}
		}
		groups = append(groups, []compute.Weight{c.weight(b, format, llama8B[4].n[0], llama8B[4].k)})
		for _, rows := range []int{1, 8, 16, 32, 64, 512, 2048} {
			report := func(name string, picked [][]compute.Weight, times int) {
				b.Run(fmt.Sprintf("%v/rows=%d/%s", format, rows, name), func(b *testing.B) {
					bytes, flops := 0.0, 0.0
					t := d.seconds(b, func(s *step) {
						for i, g := range picked {
							s.Layer(i)
							x, _ := s.newOperand(rows, g[0].Width, 1)
							for _, w := range g {
								s.MatMul(x, w)
							}
						}
					})
					for _, g := range picked {
						for _, w := range g {
							bytes += float64(w.Bytes)
							flops += 2 * float64(rows) * float64(w.Rows) * float64(w.Width)
						}
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(t*1e6/float64(times), "us")
					b.ReportMetric(bytes/t/1e9, "GB/s")
					b.ReportMetric(flops/t/1e12, "TFLOP/s")
					b.ReportMetric(100*bytes/readRate/t, "%floor")
				})
			}
			for i, m := range llama8B[:4] {
				var picked [][]compute.Weight
				for layer := range 32 {
					picked = append(picked, groups[4*layer+i])
				}
				report(m.name, picked, len(picked))
			}
			if rows <= 64 {
				report("head", groups[128:], 1)
				report("step", groups, 1)
			} else {
				report("step", groups[:128], 1)
			}
		}
		err := d.owner.do(func() error {
			for _, g := range groups {
				for _, w := range g {
					if err := d.free(w.Mem.(*packed).data); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
