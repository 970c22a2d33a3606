package memra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// BenchTest is one thing to measure, in the manner of llama-bench: Prompt tokens computed at once, or Generate tokens one by one,
// after Depth tokens that are not timed. Sampling is left out.
type BenchTest struct {
	Prompt, Generate, Depth int
}

// BenchResult is a test's figures.
type BenchResult struct {
	BenchTest
	Samples []time.Duration // of each repetition
	Floor   float64         // tokens a second if reading what must be read were all: see Bench
}

// Rates is the mean and the standard deviation of the tokens a second.
func (r BenchResult) Rates() (mean, deviation float64) {
	n := float64(len(r.Samples))
	for _, d := range r.Samples {
		mean += r.rate(d) / n
	}
	for _, d := range r.Samples {
		deviation += (r.rate(d) - mean) * (r.rate(d) - mean)
	}
	if n > 1 {
		deviation = math.Sqrt(deviation / (n - 1))
	}
	return mean, deviation
}

func (r BenchResult) rate(d time.Duration) float64 {
	return float64(r.Prompt+r.Generate) / d.Seconds()
}

// Bench runs a test, once to warm up and then so many times. The floor is the rate at which this machine could read the bytes
// that the test must read: the weights once a step, and the KV cache of the tokens before; bandwidth is in bytes a second
// (ReadBandwidth).
func (m *Model) Bench(ctx context.Context, t BenchTest, repetitions int, bandwidth float64) (BenchResult, error) {
	r := BenchResult{BenchTest: t}
	if t.Prompt < 0 || t.Generate < 0 || t.Depth < 0 || (t.Prompt > 0) == (t.Generate > 0) {
		return r, fmt.Errorf("memra: bench of %d prompt and %d generated tokens at depth %d: one of the two must be positive, none negative", t.Prompt, t.Generate, t.Depth)
	}
	if repetitions < 1 {
		return r, errors.New("memra: bench wants at least one repetition")
	}
	for i := range repetitions + 1 {
		d, err := m.benchOnce(ctx, t)
		if err != nil {
			return r, err
		}
		if i > 0 {
			r.Samples = append(r.Samples, d)
		}
	}
	r.Floor = float64(t.Prompt+t.Generate) / (float64(m.benchBytes(t)) / bandwidth)
	return r, nil
}

// benchBytes is what a test must read.
func (m *Model) benchBytes(t BenchTest) int {
	steps := t.Generate + (t.Prompt+m.step-1)/m.step
	bytes := steps * m.model.Bytes
	kv := 0 // bytes of a position that a row reads, in all layers
	seen := func(position int) (n int) {
		for _, l := range m.model.State() {
			length := position + 1
			if l.Window > 0 {
				length = min(length, l.Window)
			}
			n += length * 2 * 2 * l.Heads * l.HeadDim
		}
		return n
	}
	if t.Prompt > 0 {
		return bytes + seen(t.Depth+t.Prompt-1)
	}
	for i := range t.Generate {
		kv += seen(t.Depth + i)
	}
	return bytes + kv
}

func (m *Model) benchOnce(ctx context.Context, t BenchTest) (time.Duration, error) {
	s, err := m.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer s.release()
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(n int) []int32 {
		tokens := make([]int32, n)
		for i := range tokens {
			tokens[i] = rng.Int32N(int32(m.model.Vocab))
		}
		return tokens
	}
	ignore := func(int, []float32) error { return nil }
	if err := s.feed(ctx, draw(t.Depth), t.Depth, ignore); err != nil {
		return 0, err
	}
	prompt, one := draw(t.Prompt), draw(t.Generate)
	began := time.Now()
	if err := s.feed(ctx, prompt, len(prompt)-1, ignore); err != nil {
		return 0, err
	}
	for i := range one {
		if err := s.feed(ctx, one[i:i+1], 0, ignore); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// ReadBandwidth measures how fast the device reads memory that no cache holds, in bytes a second.
func (m *Model) ReadBandwidth() (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	return m.device.ReadBandwidth()
}

// Facts are what a benchmark's report says of the model and the machine.
type Facts struct {
	File       string
	Family     string
	Format     string // of most of the weights
	Bytes      int    // of all tensors in the file
	Parameters int
	Threads    int
	Device     string // what computes: see Model.Device
	CPU        string // the processor's own name, "unknown" where it has none
}

// Facts says what runs.
func (m *Model) Facts() Facts {
	f := Facts{File: m.file.Path, Family: m.model.Name, Threads: m.device.Threads(), Device: m.device.Name(), CPU: cmp.Or(cpuid.CPU.BrandName, "unknown")}
	byFormat := map[string]int{}
	for i := range m.file.Tensors {
		t := &m.file.Tensors[i]
		f.Bytes += t.Size()
		f.Parameters += t.Values()
		byFormat[t.Type.String()] += t.Values()
		if byFormat[t.Type.String()] > byFormat[f.Format] {
			f.Format = t.Type.String()
		}
	}
	return f
}
