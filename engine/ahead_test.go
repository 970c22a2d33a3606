package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/gguf"
	"memra/internal/overlap"
	"memra/internal/tiny"
	"memra/sample"
)

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
			d := &overlap.Device{Device: processor(t, 1)}
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
			if d.Ahead != c.ahead || d.Disorder > 0 || d.Begun != d.Waited {
				t.Errorf("%d steps were begun ahead, want %d; %d out of turn; %d begun, %d waited for", d.Ahead, c.ahead, d.Disorder, d.Begun, d.Waited)
			}
		})
	}
}

// An end token is known when a row too many has been begun. It is nobody's: the pages, what the prefixes keep and other answers are as without it.
func TestARowBehindTheEndIsNobodys(t *testing.T) {
	d := &overlap.Device{Device: processor(t, 1)}
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
	if d.Ahead < 100 || d.Disorder > 0 {
		t.Errorf("%d steps were begun ahead, %d out of turn", d.Ahead, d.Disorder)
	}
}

// Where an end is known beforehand, whoever waits has the place in the very next step.
func TestAPlaceThatBecomesFreeIsTakenAtOnce(t *testing.T) {
	steps := func(d compute.Device) {
		z := roomy
		z.sequences = 2
		e := open(t, d, tiny.Qwen35(1, gguf.Q8_0), z)
		var answers []*Answer
		if err := e.Between(func() error { // so that all begin together
			for i, limit := range []int{10, 40, 20, 15} {
				a, err := newAnswer(e, &Request{Tokens: random(uint64(i), 1), Limit: limit})
				if err != nil {
					return err
				}
				e.take(a)
				answers = append(answers, a)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if _, err := read(a); err != nil {
				t.Fatal(err)
			}
		}
		e.Close()
	}
	inTurn := 0
	steps(&faulty{Device: processor(t, 1), step: func([]sample.Draw) error { inTurn++; return nil }})
	ahead := &overlap.Device{Device: processor(t, 1)}
	steps(ahead)
	if ahead.Begun != inTurn || ahead.Ahead < inTurn/2 {
		t.Errorf("%d steps, of which %d were begun ahead; in turn they are %d", ahead.Begun, ahead.Ahead, inTurn)
	}
}

// What is asked of an engine finds no step under way.
func TestNothingIsUnderWayBetweenSteps(t *testing.T) {
	d := &overlap.Device{Device: processor(t, 1)}
	e := open(t, d, tiny.Llama(1, gguf.Q8_0), roomy)
	ctx, cancel := context.WithCancel(t.Context())
	a, err := e.Submit(ctx, Request{Tokens: random(1, 10), Limit: 4000})
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if err := e.Between(func() error {
			if d.Begun != d.Waited {
				t.Errorf("%d steps were begun, %d waited for", d.Begun, d.Waited)
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
	d := &dying{Device: overlap.Device{Device: processor(t, 1)}, after: 30, fault: fault}
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
	if d.Begun != d.Waited {
		t.Errorf("%d steps were begun, %d waited for", d.Begun, d.Waited)
	}
}

// dying is a device whose steps fail from one on, when they are waited for.
type dying struct {
	overlap.Device
	after int
	fault error
}

func (d *dying) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (func() ([]sample.Pick, error), error) {
	wait, err := d.Device.Start(forward, draws)
	if err != nil || d.Begun < d.after {
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
