package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/internal/builtin"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// measured are the models to measure: the built-in one, and those in the folder that MEMRA_MODELS names.
func measured(b *testing.B) (files []string) {
	files = []string{builtin.Name}
	if folder := os.Getenv("MEMRA_MODELS"); folder != "" {
		more, err := filepath.Glob(filepath.Join(folder, "*.gguf"))
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, more...)
	}
	return files
}

// eachModel runs a benchmark on each model, with an engine on all processors.
func eachModel(b *testing.B, positions int, run func(b *testing.B, e *Engine)) {
	for _, path := range measured(b) {
		b.Run(filepath.Base(path), func(b *testing.B) {
			d := processor(b, 0)
			file, err := builtin.GGUF(path)
			if err != nil {
				b.Fatal(err)
			}
			m, err := model.Open(model.GGUF(file), d)
			if err != nil {
				b.Fatal(err)
			}
			run(b, start(b, d, m, sizes{rows: d.Step(), asking: 64, sequences: 17, positions: positions, slots: 17}))
		})
	}
}

// answers has an engine generate so many tokens to each of so many prompts, and returns the time from the first token of all to the last.
func answers(b *testing.B, e *Engine, requests, limit int) time.Duration {
	var list []*Answer
	for i := range requests {
		list = append(list, submit(b, e, Request{Tokens: random(uint64(i), 8), Limit: limit}))
	}
	var from, to time.Time
	for _, a := range list {
		first, err := a.Next(context.Background())
		if err != nil || first.Done != nil {
			b.Fatal(first, err)
		}
		if _, err := read(a); err != nil {
			b.Fatal(err)
		}
		p := a.progress[0]
		if from.IsZero() || p.first.Before(from) {
			from = p.first
		}
		if p.last.After(to) {
			to = p.last
		}
	}
	return to.Sub(from)
}

// BenchmarkRequests measures how many tokens a second requests get together, and how many times the rate of one that is.
func BenchmarkRequests(b *testing.B) {
	eachModel(b, 17*256, func(b *testing.B, e *Engine) {
		one := 0.0
		for _, n := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprint(n), func(b *testing.B) {
				best := time.Duration(1 << 62)
				for range b.N {
					best = min(best, answers(b, e, n, 128))
				}
				rate := float64(127*n) / best.Seconds()
				if n == 1 {
					one = rate
				}
				b.ReportMetric(rate, "tokens/s")
				b.ReportMetric(rate/one, "x-one")
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}

// BenchmarkAPromptBesideStreams measures the time between tokens of 16 streams: with a prompt of 32k tokens that begins to be computed
// beside them, for 400 steps, and without it before and after, for their own depth grows meanwhile.
func BenchmarkAPromptBesideStreams(b *testing.B) {
	eachModel(b, 66<<10, func(b *testing.B, e *Engine) {
		clock := &stamped{Device: e.config.Device}
		var alone, beside []time.Duration
		var spent time.Duration
		rows := 0
		for range b.N {
			e.Between(func() error { e.config.Device = clock; return nil })
			ctx, cancel := context.WithCancel(b.Context())
			for i := range 16 {
				if _, err := e.Submit(ctx, Request{Tokens: random(uint64(i), 64), Limit: 2000}); err != nil {
					b.Fatal(err)
				}
			}
			clock.wait(e, 50) // warms up
			alone = append(alone, clock.wait(e, 200)...)
			prompt, err := e.Submit(ctx, Request{Tokens: random(99, 32<<10), Limit: 1})
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			beside = append(beside, clock.wait(e, 400)...)
			spent += time.Since(began)
			e.Between(func() error { rows += prompt.sequences[0].state.Len(); return nil })
			prompt.Cancel()
			alone = append(alone, clock.wait(e, 200)...)
			cancel()
		}
		slices.Sort(alone)
		slices.Sort(beside)
		before, with := alone[len(alone)/2], beside[len(beside)/2]
		b.ReportMetric(float64(before.Microseconds())/1e3, "ms-alone")
		b.ReportMetric(float64(with.Microseconds())/1e3, "ms-beside")
		b.ReportMetric(float64(beside[len(beside)*99/100].Microseconds())/1e3, "ms-beside-p99")
		b.ReportMetric(float64(with)/float64(before), "x-alone")
		b.ReportMetric(float64(rows)/float64(b.N), "prompt-rows")
		b.ReportMetric(float64(rows)/spent.Seconds(), "prompt-tokens/s")
		b.ReportMetric(0, "ns/op")
	})
}

// nothing is a device that computes nothing.
type nothing struct{ paper }

func (nothing) Sample(_ func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	return make([]sample.Pick, len(draws)), nil
}

// BenchmarkBetweenSteps measures what passes between two steps: everything but the device.
func BenchmarkBetweenSteps(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			pool, err := state.NewPool(nothing{}, state.KV(1, 1, 16), state.Config{Positions: 300 * n, Sequences: n, Step: 256})
			if err != nil {
				b.Fatal(err)
			}
			e := idle(Config{Device: nothing{}, Model: &model.Model{Vocab: 1000}, Pool: pool, Prefixes: state.NewTree(pool), Rows: 256, Asking: 256, Sequences: n, Context: 1 << 20})
			for step := 0; b.Loop(); step++ {
				if step%200 > 0 {
					e.step(time.Since)
					continue
				}
				b.StopTimer()
				e.scheduler.failAll(context.Canceled)
				for i := range n {
					a, err := newAnswer(e, &Request{Tokens: random(uint64(i), 10), Limit: 280})
					if err != nil {
						b.Fatal(err)
					}
					e.scheduler.add(a)
				}
				for range n/16 + 2 { // prompts
					e.step(time.Since)
				}
				b.StartTimer()
			}
		})
	}
}

// stamped is a device that notes when its steps end.
type stamped struct {
	compute.Device
	ends []time.Time
}

func (d *stamped) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	picks, err := d.Device.Sample(forward, draws)
	d.ends = append(d.ends, time.Now())
	return picks, err
}

// wait lets n steps pass, and returns the times between their ends.
func (d *stamped) wait(e *Engine, n int) (between []time.Duration) {
	e.Between(func() error { d.ends = d.ends[:0]; return nil })
	for len(between) < n {
		time.Sleep(10 * time.Millisecond)
		e.Between(func() error {
			between = between[:0]
			for i := 1; i < len(d.ends); i++ {
				between = append(between, d.ends[i].Sub(d.ends[i-1]))
			}
			return nil
		})
	}
	return between
}
