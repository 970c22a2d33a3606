package engine

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// sizes of an engine under test.
type sizes struct {
	rows, asking, sequences, positions, slots, snapshots int
	prefixes                                             bool
}

var roomy = sizes{rows: 256, asking: 64, sequences: 8, positions: 8000, slots: 8}

// open starts an engine with a model on a device.
func open(t testing.TB, d compute.Device, src model.Source, s sizes) *Engine {
	t.Helper()
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, d, m, s)
}

func start(t testing.TB, d compute.Device, m *model.Model, s sizes) *Engine {
	t.Helper()
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: s.positions, Sequences: s.slots, Step: s.rows, Snapshots: s.snapshots})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Device: d, Model: m, Pool: pool, Rows: s.rows, Asking: s.asking, Sequences: s.sequences, Context: 1 << 20}
	if s.prefixes {
		c.Prefixes = state.NewTree(pool)
	}
	e := New(c)
	t.Cleanup(func() {
		e.Close()
		if s.prefixes {
			c.Prefixes.Clear()
		}
		if used := pool.Used(); used != 0 {
			t.Errorf("%d bytes of pages are held after the end, want none", used)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// processor is a CPU device of so many threads.
func processor(t testing.TB, threads int) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// submit sends a request that is served.
func submit(t testing.TB, e *Engine, r Request) *Answer {
	t.Helper()
	a, err := e.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// read is all of an answer's events, and how it ended if not well.
func read(a *Answer) (events []Event, err error) {
	for {
		e, err := a.Next(context.Background())
		switch {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return events, err
		}
		events = append(events, e)
	}
}

// tokens is the generated ones of an answer's i-th.
func tokens(events []Event, i int) (tokens []int32) {
	for _, e := range events {
		if e.Index == i && !e.Scored && e.Done == nil {
			tokens = append(tokens, e.Token)
		}
	}
	return tokens
}

func random(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 9))
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = rng.Int32N(tiny.Vocab)
	}
	return tokens
}

func TestManyAnswersToOnePromptAreThoseOfTheirSeeds(t *testing.T) {
	for _, n := range []int{1, 2, 64, 65, 130} {
		e := open(t, processor(t, 1), tiny.Qwen35(3, gguf.Q8_0), sizes{rows: 64, asking: 8, sequences: 3, positions: 2000, slots: 3}) // fewer slots than answers
		r := Request{Tokens: random(1, n), Limit: 20, N: 5, Draw: sample.Draw{Params: sample.Params{Temperature: 1, Seed: 7}, LogProb: true}}
		together, err := read(submit(t, e, r))
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.N {
			one := r
			one.N, one.Draw.Seed = 1, r.Draw.Seed+uint64(i)
			alone, err := read(submit(t, e, one))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := tokens(together, i), tokens(alone, 0); !slices.Equal(got, want) || len(got) != r.Limit {
				t.Errorf("prompt of %d: answer %d is %v, alone %v", n, i, got, want)
			}
		}
	}
}

func TestRequestsThatCanNeverBeServedSayWhy(t *testing.T) {
	e := open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), sizes{rows: 64, asking: 8, sequences: 2, positions: 640, slots: 2})
	greedy := sample.Draw{}
	for _, c := range []struct {
		name string
		r    Request
		want string
	}{
		{"no token", Request{Limit: 1}, "without a token"},
		{"a token that does not exist", Request{Tokens: []int32{1, 300}, Limit: 1}, "token 1 of the prompt: 300, want 0 to 299"},
		{"a limit below zero", Request{Tokens: []int32{1}, Limit: -1}, "limit of -1"},
		{"more tokens than the context", Request{Tokens: []int32{1}, Limit: 1 << 20}, "exceed the context of 1048576"},
		{"more tokens than all pages", Request{Tokens: []int32{1}, Limit: 1000}, "1001 tokens need 16 pages of 64 tokens, the pool has 12: 768 tokens would fit"},
		{"nothing asked", Request{Tokens: []int32{1, 2}}, "nothing is asked for"},
		{"scores of nothing", Request{Tokens: []int32{1, 2}, Score: &Score{From: 1}}, "nothing is asked for"},
		{"scores from beyond the end", Request{Tokens: []int32{1, 2}, Limit: 1, Score: &Score{From: 2}}, "want 0 to 1"},
		{"many scores", Request{Tokens: []int32{1, 2}, N: 2, Score: &Score{}}, "2 answers"},
		{"a temperature below zero", Request{Tokens: []int32{1}, Limit: 1, Draw: sample.Draw{Params: sample.Params{Temperature: -1}}}, "temperature"},
		{"too many likeliest tokens", Request{Tokens: []int32{1}, Limit: 1, Draw: greedy, Score: &Score{Top: 5000}}, "5000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := e.Submit(t.Context(), c.r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestCancelledRequestsAreGoneBeforeTheNextStep(t *testing.T) {
	e := open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), roomy)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	byContext, err := e.Submit(ctx, Request{Tokens: random(1, 100), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	byHand := submit(t, e, Request{Tokens: random(2, 100), Limit: 1000})
	for _, a := range []*Answer{byContext, byHand} {
		if _, err := a.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	byHand.Cancel()
	for _, a := range []*Answer{byContext, byHand} {
		if _, err := read(a); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled answer ends with %v, want context.Canceled", err)
		}
	}
	if err := e.Between(func() error {
		if used := e.config.Pool.Used(); used != 0 {
			t.Errorf("%d bytes of pages are held after a cancellation, want none", used)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARequestWhoseContextHasEndedIsNotComputed(t *testing.T) {
	e := open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), roomy)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		a, err := e.Submit(ctx, Request{Tokens: random(1, 10), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if events, err := read(a); len(events) > 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d events, then %v, want none and context.Canceled", len(events), err)
		}
	}
}

func TestAClosedEngineEndsWhatRunsAndTakesNothingIn(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	e := open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), roomy)
	running := submit(t, e, Request{Tokens: random(1, 100), Limit: 5000})
	if _, err := running.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
	if _, err := read(running); !errors.Is(err, ErrClosed) {
		t.Errorf("what ran ends with %v, want ErrClosed", err)
	}
	if _, err := e.Submit(t.Context(), Request{Tokens: random(1, 1), Limit: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("a request gets %v, want ErrClosed", err)
	}
	if err := e.Between(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Between gives %v, want ErrClosed", err)
	}
	for began := time.Now(); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
}

// faulty is a device some of whose steps fail, or some of whose rows have no numbers.
type faulty struct {
	compute.Device
	step func(draws []sample.Draw) error
	late bool                     // a step that fails has been computed
	row  func(d sample.Draw) bool // gives no token
}

func (f *faulty) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	if f.step != nil {
		if err := f.step(draws); err != nil {
			if f.late {
				_, late := f.Device.Sample(forward, draws)
				err = errors.Join(err, late)
			}
			return nil, err
		}
	}
	picks, err := f.Device.Sample(forward, draws)
	for i := range picks {
		if f.row != nil && f.row(draws[i]) {
			picks[i] = draws[i].Refuse(&sample.RowError{Fault: sample.NaN, Vocab: tiny.Vocab})
		}
	}
	return picks, err
}

// faultyAhead is the same of a device that takes a step in while one runs: what fails has not begun.
type faultyAhead struct {
	*faulty
	device compute.Overlapping
}

func (f faultyAhead) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (func() ([]sample.Pick, error), error) {
	if f.step != nil {
		if err := f.step(draws); err != nil {
			return nil, err
		}
	}
	return f.device.Start(forward, draws)
}

// beside runs three requests of seeds 1 to 3 on a device with a fault, and returns what each got and what each gets without.
func beside(t *testing.T, f *faulty) (got, want [][]int32, errs []error) {
	t.Helper()
	f.Device = processor(t, 1)
	e := open(t, f, tiny.Llama(1, gguf.Q8_0), roomy)
	var answers []*Answer
	for seed := range uint64(3) {
		r := Request{Tokens: random(seed, 70), Limit: 30, Draw: sample.Draw{Params: sample.Params{Temperature: 1, Seed: seed + 1}}}
		answers = append(answers, submit(t, e, r))
		alone, err := read(submit(t, open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), roomy), r))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tokens(alone, 0))
	}
	for _, a := range answers {
		events, err := read(a)
		got, errs = append(got, tokens(events, 0)), append(errs, err)
	}
	return got, want, errs
}

func TestARowWithoutNumbersFailsItsRequestAlone(t *testing.T) {
	got, want, errs := beside(t, &faulty{row: func(d sample.Draw) bool { return d.Seed == 2 && d.Position == 80 }})
	var row *sample.RowError
	if !errors.As(errs[1], &row) || !strings.Contains(errs[1].Error(), "after token 80") {
		t.Errorf("the request with the row gets %v, want a *sample.RowError", errs[1])
	}
	if !slices.Equal(got[1], want[1][:11]) {
		t.Errorf("before the row it got %v, want %v", got[1], want[1][:11])
	}
	for _, i := range []int{0, 2} {
		if errs[i] != nil || !slices.Equal(got[i], want[i]) {
			t.Errorf("request %d beside it: %v, %v; want %v", i, got[i], errs[i], want[i])
		}
	}
}

func TestAStepThatFailsEndsThoseWhoseRowsFail(t *testing.T) {
	fault := errors.New("planted")
	got, want, errs := beside(t, &faulty{step: func(draws []sample.Draw) error {
		for _, d := range draws {
			if d.Seed == 2 && d.Position > 90 {
				return fault
			}
		}
		return nil
	}})
	if !errors.Is(errs[1], fault) {
		t.Errorf("the request whose rows fail gets %v, want the step's error", errs[1])
	}
	for _, i := range []int{0, 2} {
		if errs[i] != nil || !slices.Equal(got[i], want[i]) {
			t.Errorf("request %d beside it: %v, %v; want %v", i, got[i], errs[i], want[i])
		}
	}
}

func TestAStepThatFailsOnceFailsNobody(t *testing.T) {
	steps := 0
	got, want, errs := beside(t, &faulty{step: func(draws []sample.Draw) error {
		if steps++; steps == 12 {
			return errors.New("planted")
		}
		return nil
	}})
	for i := range got {
		if errs[i] != nil || !slices.Equal(got[i], want[i]) {
			t.Errorf("request %d: %v, %v; want %v", i, got[i], errs[i], want[i])
		}
	}
}

func TestADeadDeviceReachesEveryone(t *testing.T) {
	steps, fault := 0, errors.New("planted")
	_, _, errs := beside(t, &faulty{step: func([]sample.Draw) error {
		if steps++; steps > 12 {
			return fault
		}
		return nil
	}})
	for i, err := range errs {
		if !errors.Is(err, fault) {
			t.Errorf("request %d gets %v, want the device's fault", i, err)
		}
	}
}

func TestStepsShrinkWhereMemoryLacks(t *testing.T) {
	e := open(t, &tight{processor(t, 1), 20}, tiny.Llama(1, gguf.Q8_0), roomy)
	r := Request{Tokens: random(4, 150), Limit: 5}
	events, err := read(submit(t, e, r))
	if err != nil {
		t.Fatal(err)
	}
	want, err := read(submit(t, open(t, processor(t, 1), tiny.Llama(1, gguf.Q8_0), roomy), r))
	if err != nil || !slices.Equal(tokens(events, 0), tokens(want, 0)) {
		t.Errorf("got %v, want %v (%v)", tokens(events, 0), tokens(want, 0), err)
	}
}

// tight is a device that has memory for steps of so many rows.
type tight struct {
	compute.Device
	rows int
}

func (d *tight) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	var tooLarge error
	picks, err := d.Device.Sample(func(ops compute.Ops) compute.Tensor {
		return forward(counting{ops, func(b *compute.Batch) {
			if b.Rows() > d.rows {
				tooLarge = compute.ErrMemory
			}
		}})
	}, draws)
	return picks, errors.Join(err, tooLarge)
}

// counting shows every batch to a function.
type counting struct {
	compute.Ops
	see func(*compute.Batch)
}

func (c counting) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	c.see(b)
	return c.Ops.Embed(b, w, scale)
}
