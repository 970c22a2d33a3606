package memra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/klauspost/cpuid/v2"

	"memra/compute"
	"memra/sample"
	"memra/state"
)

// BenchTest is one thing to measure, in the manner of llama-bench: Prompt tokens computed at once, or Generate tokens one by one in
// each of Streams sequences that step together, after Depth tokens that are not timed. Sampling is left out.
type BenchTest struct {
	Prompt, Generate, Depth int
	Streams                 int // 0: 1
}

// tokens is how many tokens the test computes.
func (t BenchTest) tokens() int { return t.Prompt + t.Generate*t.streams() }

func (t BenchTest) streams() int { return max(1, t.Streams) }

// BenchResult is a test's figures.
type BenchResult struct {
	BenchTest
	Samples []time.Duration // of each repetition
	Floor   float64         // tokens a second if reading what must be read were all: see Bench
	Kernels int             // that the last step launched; 0 where the device does not say
}

// Rates is the mean and the standard deviation of the tokens a second.
func (r BenchResult) Rates() (mean, deviation float64) {
	n := float64(len(r.Samples))
	for _, d := range r.Samples {
		mean += r.Rate(d) / n
	}
	for _, d := range r.Samples {
		deviation += (r.Rate(d) - mean) * (r.Rate(d) - mean)
	}
	if n > 1 {
		deviation = math.Sqrt(deviation / (n - 1))
	}
	return mean, deviation
}

// Rate is the tokens a second of one sample.
func (r BenchResult) Rate(d time.Duration) float64 { return float64(r.tokens()) / d.Seconds() }

// Bench runs a test, once to warm up and then so many times. The floor is the rate at which this machine could read the bytes
// that the test must read: the weights once a step, and the KV cache of the tokens before; bandwidth is in bytes a second
// (ReadBandwidth).
func (m *machine) Bench(ctx context.Context, t BenchTest, repetitions int, bandwidth float64) (BenchResult, error) {
	r := BenchResult{BenchTest: t}
	switch {
	case t.Prompt < 0 || t.Generate < 0 || t.Depth < 0 || (t.Prompt > 0) == (t.Generate > 0):
		return r, fmt.Errorf("memra: bench of %d prompt and %d generated tokens at depth %d: one of the two must be positive, none negative", t.Prompt, t.Generate, t.Depth)
	case t.Streams < 0 || t.Streams > 1 && t.Prompt > 0:
		return r, fmt.Errorf("memra: bench of %d streams, want one for a prompt, one or more to generate", t.Streams)
	case t.streams() > m.sequences:
		return r, fmt.Errorf("memra: bench of %d streams, the model was opened for %d sequences", t.Streams, m.sequences)
	case repetitions < 1:
		return r, errors.New("memra: bench wants at least one repetition")
	}
	return r, m.between(func() error { return r.measure(ctx, m, repetitions, bandwidth) })
}

// measure runs the test, between two of the engine's steps.
func (r *BenchResult) measure(ctx context.Context, m *machine, repetitions int, bandwidth float64) error {
	run := &benchRun{m: m, test: r.BenchTest, rng: newBenchRand()}
	defer run.release()
	for i := range repetitions + 1 {
		d, err := run.once(ctx)
		if err != nil {
			return err
		}
		if i > 0 {
			r.Samples = append(r.Samples, d)
		}
	}
	r.Floor = float64(r.tokens()) / (float64(m.benchBytes(r.BenchTest)) / bandwidth)
	r.Kernels = m.device.Kernels()
	return nil
}

// benchBytes is what a test must read.
func (m *machine) benchBytes(t BenchTest) int {
	steps := t.Generate + (t.Prompt+m.step-1)/m.step
	bytes := steps * m.model.Bytes
	seen := func(position int) (n int) { // bytes of the cache that a row reads, in all layers
		for _, l := range m.model.State() {
			if net := l.Delta; net != (compute.DeltaShape{}) {
				net.Format = m.device.DeltaFormat()
				n += net.ReadBytes()
				continue
			}
			length := position + 1
			if l.Window > 0 {
				length = min(length, l.Window)
			}
			page := compute.KVShape{Layers: 1, Heads: l.Heads, HeadDim: l.HeadDim, Format: m.format}.PageBytes()
			n += length * (page / compute.Page)
		}
		return n
	}
	if t.Prompt > 0 {
		return bytes + seen(t.Depth+t.Prompt-1)
	}
	for i := range t.Generate {
		bytes += t.streams() * seen(t.Depth+i)
	}
	return bytes
}

// benchRun is a test in progress. Its sequences hold the tokens before, from one repetition to the next.
type benchRun struct {
	m         *machine
	test      BenchTest
	rng       *rand.Rand
	sequences []*sequence
}

// newBenchRand draws the same tokens every time.
func newBenchRand() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

func (b *benchRun) release() {
	for _, s := range b.sequences {
		s.state.Free()
	}
}

func (b *benchRun) draw(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = b.rng.Int32N(int32(b.m.model.Vocab))
	}
	return tokens
}

// prepare brings every sequence to the test's depth.
func (b *benchRun) prepare(ctx context.Context) error {
	for len(b.sequences) < b.test.streams() {
		b.sequences = append(b.sequences, b.m.newSequence())
	}
	for _, s := range b.sequences {
		s.cut(b.test.Depth)
		before := b.draw(b.test.Depth - len(s.tokens))
		if err := b.feed(ctx, s, before, len(before)); err != nil {
			return err
		}
	}
	return nil
}

// feed computes tokens of a sequence, and draws from their rows from token `from` on.
func (b *benchRun) feed(ctx context.Context, s *sequence, tokens []int32, from int) error {
	return s.feed(ctx, tokens, from, func(step *compute.Batch, _ int) error {
		_, err := b.m.run(step, make([]sample.Draw, len(step.Logits)), s.state)
		return err
	})
}

func (b *benchRun) once(ctx context.Context) (time.Duration, error) {
	if err := b.prepare(ctx); err != nil {
		return 0, err
	}
	if b.test.Prompt > 0 {
		prompt := b.draw(b.test.Prompt)
		began := time.Now()
		err := b.feed(ctx, b.sequences[0], prompt, len(prompt)-1)
		return time.Since(began), err
	}
	tokens := b.draw(b.test.Generate * b.test.streams())
	began := time.Now()
	err := b.generate(ctx, tokens)
	return time.Since(began), err
}

// generate computes tokens, one of each sequence in a step. Each step is begun while the one before runs, as the engine does.
func (b *benchRun) generate(ctx context.Context, tokens []int32) error {
	wait := func() ([]sample.Pick, error) { return nil, nil }
	for n := b.test.streams(); len(tokens) > 0; tokens = tokens[n:] {
		next, err := b.together(tokens[:n])
		if _, before := wait(); err != nil || before != nil {
			return errors.Join(before, err)
		}
		wait = next
		if ctx.Err() != nil {
			break
		}
	}
	_, err := wait()
	return cmp.Or(err, ctx.Err())
}

// together begins a step of one token of each sequence, which draws what follows each.
func (b *benchRun) together(tokens []int32) (wait func() ([]sample.Pick, error), err error) {
	var step compute.Batch
	var states []*state.Sequence
	for i, s := range b.sequences {
		if err := s.add(&step, i, tokens[i:i+1], 1); err != nil {
			return nil, err
		}
		states = append(states, s.state)
	}
	return b.m.begin(&step, make([]sample.Draw, len(tokens)), states...)
}

// ReadBandwidth measures how fast the device reads memory that no cache holds, in bytes a second.
func (m *machine) ReadBandwidth() (rate float64, err error) {
	err = m.between(func() error {
		rate, err = m.device.ReadBandwidth()
		return err
	})
	return rate, err
}

// Facts are what a benchmark's report says of the model and the machine.
type Facts struct {
	File       string // or the name of a synthetic model
	Family     string
	Format     string // of most of the weights
	Bytes      int    // of all tensors in the file
	Parameters int
	Threads    int    // of the CPU
	Class      string // the numeric class of what computes: "cpu", "cuda"
	Device     string // what computes: see Model.Device
	CPU        string // the processor's own name, "unknown" where it has none
}

// Facts says what runs.
func (m *machine) Facts() Facts { return m.facts }

// factsOf is what is known of a model before it is opened.
func factsOf(src source, d compute.Device, threads int) Facts {
	f := Facts{File: src.Name(), Bytes: src.Bytes(), Parameters: src.Parameters(), Threads: cmp.Or(threads, runtime.GOMAXPROCS(0)),
		Class: d.Class(), Device: d.Name(), CPU: cmp.Or(cpuid.CPU.BrandName, "unknown")}
	values := map[string]int{}
	for _, t := range src.Tensors() {
		name := t.Type.String()
		if values[name] += t.Values(); values[name] > values[f.Format] {
			f.Format = name
		}
	}
	return f
}
