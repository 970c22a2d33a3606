package cuda

import (
	"fmt"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/internal/synthetic"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// idle is a driver that costs nothing: what is left of a step's time is this package's.
type idle struct{ *fake }

func (f idle) launch(*launch, handle) status      { return success }
func (f idle) graphLaunch(handle, handle) status  { f.replays++; return success }
func (f idle) captureEnd(handle) (handle, status) { f.capturing = false; return f.handle(), success }

// hollow is a device whose weights have places and no content.
type hollow struct{ *Device }

func (d hollow) Pack(format gguf.Type, rows, width int, data []byte, _ func(from, to int)) (compute.Weight, error) {
	src, err := sourceOf(format, rows, width, data)
	if err != nil {
		return compute.Weight{}, err
	}
	p := &packed{layout: src.layout, n: rows, k: width}
	p.data, p.scales, err = d.room(p.tileBytes(), 4*rows, "a weight")
	return compute.Weight{Rows: rows, Width: width, Mem: p}, err
}

// hollowModel is a model of a well-known shape on a driver without a GPU.
func hollowModel(t testing.TB, name string, drv driver) (*Device, *model.Model) {
	t.Helper()
	d, err := open(drv, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	src, err := synthetic.New(name, "Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(src, hollow{d})
	if err != nil {
		t.Fatal(err)
	}
	return d, m
}

// BenchmarkRecord is the host's part of a step that repeats: one token of each of some sequences, with a graph that takes no time.
func BenchmarkRecord(b *testing.B) {
	for _, name := range []string{"Llama-3.1-8B", "Qwen3.5-9B"} {
		drv := newFake()
		d, m := hollowModel(b, name, idle{drv})
		for _, rows := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/rows=%d", name, rows), func(b *testing.B) {
				const depth = 512
				pool, err := state.NewPool(d, m.State(), state.Config{Positions: rows * 4096, Sequences: rows, Step: depth})
				if err != nil {
					b.Fatal(err)
				}
				defer pool.Close()
				var sequences []*state.Sequence
				for range rows {
					s := pool.NewSequence()
					if err := s.Extend(depth); err != nil {
						b.Fatal(err)
					}
					sequences = append(sequences, s)
				}
				var batch compute.Batch
				draws := make([]sample.Draw, rows)
				step := func() {
					batch = compute.Batch{Tokens: batch.Tokens[:0], Positions: batch.Positions[:0], Slots: batch.Slots[:0], Logits: batch.Logits[:0]}
					for i, s := range sequences {
						if s.Len() == 3*depth {
							s.Truncate(s.Len() - 1)
						}
						batch.Add(int32(i), s.Len(), i, true)
						if err := s.Extend(1); err != nil {
							b.Fatal(err)
						}
					}
					view := pool.View(sequences...)
					if _, err := d.Sample(func(ops compute.Ops) compute.Tensor { return m.Forward(ops, &batch, view) }, draws); err != nil {
						b.Fatal(err)
					}
				}
				for range 3 {
					step()
				}
				before := drv.replays
				b.ReportAllocs()
				for b.Loop() {
					step()
				}
				b.ReportMetric(float64(drv.replays-before)/float64(b.N), "replays/op")
				b.ReportMetric(float64(len(d.step.launches)), "launches")
			})
		}
	}
}
