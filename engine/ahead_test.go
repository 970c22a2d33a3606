package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/sample"
)

// overlapping is a device that takes a step in before the one before was waited for, as GPUs do.
type overlapping struct {
	compute.Device
	last           []int32 // what the draws of the last step gave
	begun, waited  int
	ahead, notDone int // steps that were begun while one was under way; that were begun as the third, or waited for out of turn
}

func (d *overlapping) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (func() ([]sample.Pick, error), error) {
	picks, err := d.Device.Sample(func(ops compute.Ops) compute.Tensor { return forward(resolving{ops, d.last}) }, draws)
	if err != nil {
		return nil, err
	}
	d.last = d.last[:0]
	for _, p := range picks {
		d.last = append(d.last, max(p.Token, 0)) // of a row that gives none, any
	}
	if d.begun > d.waited {
		d.ahead++
	}
	if d.begun-d.waited > 1 {
		d.notDone++
	}
	turn := d.begun
	d.begun++
	return func() ([]sample.Pick, error) {
		if turn != d.waited {
			d.notDone++
		}
		d.waited++
		return picks, nil
	}, nil
}

// resolving is operations that know what was drawn.
type resolving struct {
	compute.Ops
	drawn []int32
}

func (r resolving) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	for i, t := range b.Tokens {
		if t < 0 {
			b.Tokens[i] = r.drawn[-1-t]
		}
	}
	return r.Ops.Embed(b, w, scale)
}

func TestTheNextStepIsBegunWhileOneRuns(t *testing.T) {
	request := func(seed uint64, change func(*Request)) Request {
		r := Request{Tokens: random(seed, 30), Limit: 50, Draw: sample.Draw{LogProb: true, Params: sample.Params{Temperature: 1, Seed: seed}}}
		change(&r)
		return r
	}
	none := func(*Request) {}
	for _, c := range []struct {
		name     string
		requests []Request
		ahead    int // steps begun ahead
	}{
		{"one stream: every row of it but the first", []Request{request(1, none)}, 48},
		{"streams of the same length", []Request{request(1, none), request(2, none), request(3, none)}, 48},
		{"a stream that ends earlier leaves the others to themselves", []Request{request(1, none), request(2, func(r *Request) { r.Limit = 20 })}, 48},
		{"penalties look back", []Request{request(1, func(r *Request) { r.Draw.RepeatPenalty = 1.2 })}, 0},
		{"and one that looks back holds all", []Request{request(1, none), request(2, func(r *Request) { r.Draw.DRY = sample.DRY{Multiplier: 1, Base: 2, AllowedLength: 2} })}, 0},
		{"a first token that is chosen is not what was drawn", []Request{request(1, func(r *Request) { r.First = &First{Ask: likeliest, Choose: second} })}, 48},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &overlapping{Device: processor(t, 1)}
			e := open(t, d, tiny.Qwen35(1, gguf.Q8_0), roomy)
			plain := open(t, processor(t, 1), tiny.Qwen35(1, gguf.Q8_0), roomy)
			var answers, want []*Answer
			if err := e.Between(func() error { // so that all begin together
				for _, r := range c.requests {
					a, err := newAnswer(e, &r)
					if err != nil {
						return err
					}
					e.take(a)
					answers, want = append(answers, a), append(want, submit(t, plain, r))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for i, a := range answers {
				got, err := read(a)
				alone, aloneErr := read(want[i])
				if err != nil || aloneErr != nil {
					t.Fatal(err, aloneErr)
				}
				if d := differ(got, alone, false); d != "" {
					t.Errorf("request %d: %s", i, d)
				}
			}
			if err := e.Between(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			if d.ahead != c.ahead || d.notDone > 0 || d.begun != d.waited {
				t.Errorf("%d steps were begun ahead, want %d; %d out of turn; %d begun, %d waited for", d.ahead, c.ahead, d.notDone, d.begun, d.waited)
			}
		})
	}
}

// An end token is known when a row too many has been begun. It is nobody's: the pages, what the prefixes keep and other answers are as without it.
func TestARowBehindTheEndIsNobodys(t *testing.T) {
	d := &overlapping{Device: processor(t, 1)}
	z := roomy
	z.prefixes = true
	e := open(t, d, tiny.Qwen35(1, gguf.Q8_0), z)
	first, err := read(submit(t, e, Request{Tokens: random(1, 60), Limit: 80}))
	if err != nil {
		t.Fatal(err)
	}
	text := tokens(first, 0)
	for _, end := range []int{3, 4, 10, 67, 68} { // about the ends of pages
		r := Request{Tokens: random(1, 60), Limit: 80, Ends: text[end : end+1]}
		stop := slices.Index(text, text[end])
		got, err := read(submit(t, e, r))
		if err != nil || !slices.Equal(tokens(got, 0), text[:stop+1]) {
			t.Errorf("it ends with token %d: %v, %v; want %v", stop, tokens(got, 0), err, text[:stop+1])
		}
		on := Request{Tokens: slices.Concat(r.Tokens, text[:stop+1]), Limit: 20}
		got, err = read(submit(t, e, on))
		if n := min(20, len(text)-stop-1); err != nil || !slices.Equal(tokens(got, 0)[:n], text[stop+1:][:n]) {
			t.Errorf("and goes on with %v, %v; want %v", tokens(got, 0), err, text[stop+1:][:n])
		}
	}
	if d.ahead < 100 || d.notDone > 0 {
		t.Errorf("%d steps were begun ahead, %d out of turn", d.ahead, d.notDone)
	}
}

// What is asked of an engine finds no step under way.
func TestNothingIsUnderWayBetweenSteps(t *testing.T) {
	d := &overlapping{Device: processor(t, 1)}
	e := open(t, d, tiny.Llama(1, gguf.Q8_0), roomy)
	ctx, cancel := context.WithCancel(t.Context())
	a, err := e.Submit(ctx, Request{Tokens: random(1, 10), Limit: 4000})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := a.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Between(func() error {
			if d.begun != d.waited {
				t.Errorf("%d steps were begun, %d waited for", d.begun, d.waited)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if _, err := read(a); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A fault that a wait brings is of the device, and what was begun behind it is void.
func TestAFaultEndsWhatWasBegunBehindIt(t *testing.T) {
	fault := errors.New("planted")
	d := &dying{overlapping: overlapping{Device: processor(t, 1)}, after: 30, fault: fault}
	e := open(t, d, tiny.Llama(1, gguf.Q8_0), roomy)
	var answers []*Answer
	for seed := range uint64(3) {
		answers = append(answers, submit(t, e, Request{Tokens: random(seed, 10), Limit: 1000}))
	}
	for i, a := range answers {
		if events, err := read(a); !errors.Is(err, fault) || len(events) == 0 {
			t.Errorf("request %d gets %v after %d events, want the fault after some", i, err, len(events))
		}
	}
	if d.begun != d.waited {
		t.Errorf("%d steps were begun, %d waited for", d.begun, d.waited)
	}
}

// dying is a device whose steps fail from one on, when they are waited for.
type dying struct {
	overlapping
	after int
	fault error
}

func (d *dying) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (func() ([]sample.Pick, error), error) {
	wait, err := d.overlapping.Start(forward, draws)
	if err != nil || d.begun < d.after {
		return wait, err
	}
	return func() ([]sample.Pick, error) {
		wait()
		return nil, d.fault
	}, nil
}

// Steps take the time from one's end to the next one's, for that is what a token takes.
func TestStepsThatOverlapTakeTheTimeBetweenTheirEnds(t *testing.T) {
	e := &Engine{scheduler: &scheduler{}}
	for _, c := range []struct {
		name         string
		began, ended time.Duration // after some time: this step, and the one before
		from         time.Duration
	}{{"behind the one before", 1, 5, 5}, {"after it", 7, 5, 7}} {
		t.Run(c.name, func(t *testing.T) {
			origin := time.Now()
			e.computed = origin.Add(c.ended)
			f := &flight{step: &step{}, began: origin.Add(c.began), wait: func() ([]sample.Pick, error) { return nil, nil }}
			var from time.Time
			e.finish(f, func(t time.Time) time.Duration { // asked once more for what comes after
				if from.IsZero() {
					from = t
				}
				return 0
			})
			if got := from.Sub(origin); got != c.from {
				t.Errorf("it is timed from %v, want %v", got, c.from)
			}
		})
	}
}
