package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"memra/compute"
	"memra/compute/cpu"
	"memra/compute/cuda"
	"memra/gguf"
	"memra/internal/builtin"
	"memra/internal/overlap"
	"memra/internal/tiny"
	"memra/model"
	"memra/sample"
	"memra/spec"
	"memra/state"
)

// The contract: a request gets the same tokens and the same bits of their log-probabilities whatever happens beside it. A plan is what
// may happen: arrivals, tenants, step sizes, the speed of the device, room for few sequences and few pages, cancellations. Each of its
// requests is compared with itself alone on an engine with room for all, and with its finished text scored.
//
//	go test ./engine                                      200 plans
//	MEMRA_SCHEDULES=10000 go test -timeout 2h ./engine    the long run: some 20 minutes on two cores
//	MEMRA_SEED=N go test ./engine                         plans from another seed, which failures print
//
// Where there is a GPU, TestScheduleIsInvisibleOnCUDA does the same there.

// plan is one schedule. It is all data, so that what fails can be made smaller.
type plan struct {
	model     int // of a bench of models
	requests  []planned
	rows      []int // of the steps, in turn: the most rows
	took      []int // and the microseconds that they seem to take
	asking    int
	sequences int
	spare     int // positions in the pool beyond those of the longest request
	prefixes  bool
	snapshots int
	faults    int  // one of so many steps fails, and is tried again; 0: none
	whims     int  // twenty times, every so many steps, somebody has to give up its pages; 0: nobody
	ahead     bool // the device takes a step in while one runs
	drafting
}

// planned is a request and its fate.
type planned struct {
	Request
	after  int // it continues the finished text of that request, whose tokens are put before its own; -1: none
	arrive int // before that step
	cancel int // before that step; 0: never
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %d, steps of %v rows that take %v µs, %d asking, %d sequences, %d positions to spare, prefixes %v, %d snapshots, faults %d, whims %d, ahead %v; %v\n",
		p.model, p.rows, p.took, p.asking, p.sequences, p.spare, p.prefixes, p.snapshots, p.faults, p.whims, p.ahead, p.drafting)
	for i, r := range p.requests {
		fmt.Fprintf(&b, "  request %d: %d tokens (after %d), limit %d, n %d, arrives %d, cancelled %d, ends %v, score %+v, first %v, tenant %q, draw %+v\n",
			i, len(r.Tokens), r.after, r.Limit, r.N, r.arrive, r.cancel, r.Ends, r.Score, r.First != nil, r.Tenant, r.Draw)
	}
	return b.String()
}

// draw makes a plan.
func draw(rng *rand.Rand, models int) plan {
	one := func(of ...int) int { return of[rng.IntN(len(of))] }
	p := plan{model: rng.IntN(models), asking: one(1, 2, 8, 64), sequences: 1 + rng.IntN(8), spare: one(0, 0, 64, 200, 1000), prefixes: rng.IntN(4) > 0, snapshots: one(0, 1, 4, 16), faults: one(0, 0, 0, 5, 40), whims: one(0, 0, 3, 10, 40),
		ahead: rng.IntN(2) == 0, drafting: randomDrafting(rng)}
	for range 1 + rng.IntN(5) {
		p.rows, p.took = append(p.rows, one(1, 2, 7, 16, 64, 100, 256)), append(p.took, one(1, 50, 1000, 1000, 20000))
	}
	back := rng.IntN(2) == 0    // some draws look back
	text := make([]int32, 2000) // prompts share beginnings
	for i := range text {
		text[i] = rng.Int32N(tiny.Vocab)
	}
	for i := range one(1, 2, 3, 3, 4, 5, 8, 12, 32) {
		r := planned{after: -1, arrive: one(0, 0, rng.IntN(10), rng.IntN(60))}
		n := one(1, 1+rng.IntN(20), 1+rng.IntN(70), 1+rng.IntN(130), 64*(1+rng.IntN(3)))
		if rng.IntN(40) == 0 {
			n = 1 + rng.IntN(2000)
		}
		same := one(0, rng.IntN(n+1), n)
		r.Tokens = slices.Clone(text[:n])
		for j := same; j < n; j++ {
			r.Tokens[j] = rng.Int32N(tiny.Vocab)
		}
		r.Drafts, r.Patient = one(0, 0, 0, -1, 1, 3), rng.IntN(3) == 0
		r.Limit, r.N, r.Tenant = one(1, 2, 10, 10, rng.IntN(40), rng.IntN(40), rng.IntN(150)), one(0, 1, 1, 1, 2, 4), []string{"", "", "b"}[rng.IntN(3)]
		r.Draw = sample.Draw{LogProb: true, Top: one(0, 0, 3), Params: sample.Params{Seed: rng.Uint64(),
			Temperature: []float32{0, 0.7, 1.3}[rng.IntN(3)], TopK: one(0, 0, 5, 40), TopP: []float32{0, 0, 0.9}[rng.IntN(3)], MinP: []float32{0, 0, 0.05}[rng.IntN(3)]}}
		if back {
			r.Draw.RepeatPenalty, r.Draw.PresencePenalty, r.Draw.PenaltyLastN = []float32{0, 0, 1.2}[rng.IntN(3)], []float32{0, 0, 0.5}[rng.IntN(3)], one(0, 0, 16)
		}
		if back && rng.IntN(6) == 0 {
			r.Draw.DRY = sample.DRY{Multiplier: 0.8, Base: 1.75, AllowedLength: 2}
		}
		for range one(0, 0, 3, 40) {
			r.Ends = append(r.Ends, rng.Int32N(tiny.Vocab))
		}
		if rng.IntN(4) == 0 && n > 1 {
			r.Score, r.N = &Score{From: one(0, rng.IntN(n-1)), Top: one(0, 2)}, 1
		} else {
			r.Limit = max(1, r.Limit)
		}
		if rng.IntN(6) == 0 {
			r.First = &First{Ask: likeliest, Choose: second}
		}
		if i > 0 && rng.IntN(4) == 0 && n < 300 {
			r.after = rng.IntN(i)
		}
		if rng.IntN(5) == 0 {
			r.cancel = r.arrive + 1 + rng.IntN(30)
		}
		p.requests = append(p.requests, r)
	}
	return p
}

func likeliest(d sample.Draw) sample.Draw {
	d.Given, d.Token, d.LogProb, d.Top = true, 5, true, 20
	return d
}

// second chooses the second likeliest token.
func second(p sample.Pick) sample.Pick {
	p.Token, p.LogProb, p.Top = p.Top[1].Token, p.Top[1].LogProb, nil
	return p
}

// subject is a model to be tested.
type subject struct {
	name   string
	device compute.Device
	*model.Model
}

// idle is an engine for the subject that only moves when it is told to.
func (s subject) idle(z sizes, sp *spec.Speculator) (*Engine, func() error) {
	pool, err := state.NewPool(s.device, s.State(), state.Config{Positions: z.positions, Sequences: z.slots, Step: 256, Snapshots: z.snapshots})
	if err != nil {
		panic(err)
	}
	c := Config{Device: s.device, Model: s.Model, Pool: pool, Rows: z.rows, Asking: z.asking, Sequences: z.sequences, Context: 1 << 20, Drafts: sp}
	if z.prefixes {
		c.Prefixes = state.NewTree(pool)
	}
	return idle(c), func() error {
		defer pool.Close()
		if sp != nil {
			defer sp.Close()
		}
		if z.prefixes {
			c.Prefixes.Clear()
		}
		if used := pool.Used(); used != 0 {
			return fmt.Errorf("%d bytes of pages are held after the end, want none", used)
		}
		return nil
	}
}

// outcome is what a request got: of each answer, and of the prompt's scores.
type outcome struct {
	answers [][]Event
	scores  []Event
	err     error
}

func newOutcome(r *Request, events []Event, err error) outcome {
	o := outcome{answers: make([][]Event, r.answers()), err: err}
	for _, e := range events {
		if e.Scored {
			o.scores = append(o.scores, e)
		} else {
			o.answers[e.Index] = append(o.answers[e.Index], e)
		}
	}
	return o
}

// alone is what a request gets with the device to itself.
func (s subject) alone(r Request) outcome {
	e, end := s.idle(sizes{rows: 256, asking: 64, sequences: 1, positions: r.length() + 1, slots: 1}, nil)
	n := r.answers()
	o := outcome{}
	for i := range n {
		one := r
		one.N, one.Draw.Seed = 1, r.Draw.Seed+uint64(i)
		a, err := newAnswer(e, &one)
		if err != nil {
			return outcome{err: err}
		}
		e.scheduler.add(a)
		for e.step(time.Since) {
		}
		of := newOutcome(&one, a.queue, a.err)
		o.answers, o.scores, o.err = append(o.answers, of.answers[0]), append(o.scores, of.scores...), cmp.Or(o.err, of.err)
	}
	return outcome{o.answers, o.scores, errors.Join(o.err, end())}
}

// run follows a plan whose requests are complete, and of which it is known what they get.
func (s subject) run(p plan, want []outcome) (outcomes []outcome, err error) {
	longest := 1
	for i := range p.requests {
		longest = max(longest, p.requests[i].length())
	}
	var texts [][]int32
	for i := range p.requests {
		for _, answer := range want[i].answers {
			texts = append(texts, slices.Concat(p.requests[i].Tokens, tokens(answer, 0)))
		}
	}
	gpu, _ := s.device.(compute.Overlapping)
	lap := &overlap.Device{Device: s.device}
	if gpu == nil && p.ahead {
		gpu, s.device = lap, lap
	}
	sp, err := p.drafting.speculator(s, texts, p.sequences)
	if err != nil {
		return nil, err
	}
	e, end := s.idle(sizes{rows: 256, asking: p.asking, sequences: p.sequences, positions: longest + p.spare, slots: 1 + p.sequences/2, prefixes: p.prefixes, snapshots: p.snapshots}, sp)
	answers, left, turn := make([]*Answer, len(p.requests)), len(p.requests), 0
	f := &faulty{Device: s.device, late: p.faults == 5, step: func([]sample.Draw) error {
		alone := len(e.scheduler.running) == 1 || slices.ContainsFunc(e.scheduler.running, func(q *sequence) bool { return q.suspect })
		if alone || p.faults == 0 || turn%p.faults != 0 {
			return nil
		}
		return errors.New("planted")
	}}
	if e.config.Device = f; p.ahead {
		e.config.Device = faultyAhead{f, gpu}
	}
	for ; ; turn++ {
		for i := range p.requests {
			r := &p.requests[i]
			if r.arrive == turn || r.cancel == turn {
				e.land()
			}
			if r.arrive == turn {
				left--
				if answers[i], err = newAnswer(e, &r.Request); err != nil {
					return nil, err
				}
				e.scheduler.add(answers[i])
			}
			if r.cancel == turn && turn > 0 {
				e.scheduler.cancel(answers[i], context.Canceled)
			}
		}
		if p.whims > 0 && turn%p.whims == 0 && turn < 20*p.whims {
			e.land()
		}
		if n := len(e.scheduler.running); p.whims > 0 && n > 0 && turn%p.whims == 0 && turn < 20*p.whims {
			e.scheduler.preempt(e.scheduler.running[turn%n])
		}
		e.scheduler.limits.rows = p.rows[turn%len(p.rows)]
		took := time.Duration(p.took[turn%len(p.took)]) * time.Microsecond
		if !e.step(func(time.Time) time.Duration { return took }) && left == 0 {
			break
		}
		if turn > 1e5 {
			return nil, errors.New("the schedule does not end")
		}
	}
	for i, a := range answers {
		outcomes = append(outcomes, newOutcome(&p.requests[i].Request, a.queue, a.err))
		seen.count(a)
	}
	seen.ahead.Add(int64(lap.Ahead))
	if lap.Disorder > 0 || lap.Begun != lap.Waited {
		err = fmt.Errorf("%d steps were begun, %d waited for, %d out of turn", lap.Begun, lap.Waited, lap.Disorder)
	}
	return outcomes, errors.Join(err, end())
}

// seen is what happened in all plans: a test of what never happens tests nothing.
var seen tally

type tally struct{ preempted, cached, accepted, cancelled, forked, ahead atomic.Int64 }

func (t *tally) count(a *Answer) {
	if a.err != nil {
		t.cancelled.Add(1)
	}
	for _, q := range a.sequences {
		t.preempted.Add(int64(q.done.Preempted))
		t.cached.Add(int64(q.done.Cached))
		t.accepted.Add(int64(q.done.Accepted))
		if q.index > 0 && q.done.Generated > 0 {
			t.forked.Add(1)
		}
	}
}

// violations compares what a plan's requests get with what each gets alone, and with its score. "" is none.
func (s subject) violations(p plan) string {
	p.requests = slices.Clone(p.requests)
	want := make([]outcome, len(p.requests))
	for i := range p.requests {
		r := &p.requests[i]
		if r.after >= 0 { // the text before, and what was said to it
			before := &p.requests[r.after]
			r.Tokens = slices.Concat(before.Tokens, tokens(want[r.after].answers[0], 0), r.Tokens)
			if r.Score != nil {
				r.Score = &Score{From: r.Score.From, Top: r.Score.Top}
			}
		}
		want[i] = s.alone(r.Request)
		if want[i].err != nil {
			return fmt.Sprintf("request %d alone: %v", i, want[i].err)
		}
		if d := s.scores(r.Request, want[i]); d != "" {
			return fmt.Sprintf("request %d, scored: %s", i, d)
		}
	}
	got, err := s.run(p, want)
	if err != nil {
		return err.Error()
	}
	for i := range got {
		cancelled := p.requests[i].cancel > 0 && errors.Is(got[i].err, context.Canceled)
		if got[i].err != nil && !cancelled {
			return fmt.Sprintf("request %d: %v", i, got[i].err)
		}
		if d := differ(got[i].scores, want[i].scores, cancelled); d != "" {
			return fmt.Sprintf("request %d, its prompt: %s", i, d)
		}
		for j := range want[i].answers {
			if d := differ(got[i].answers[j], want[i].answers[j], cancelled); d != "" {
				return fmt.Sprintf("request %d, answer %d: %s", i, j, d)
			}
		}
	}
	return ""
}

// scores compares an answer with its finished text scored.
func (s subject) scores(r Request, o outcome) string {
	for i, answer := range o.answers {
		all := slices.Concat(r.Tokens, tokens(answer, 0)) // alone, each is the first
		if len(all) < 2 {
			continue
		}
		scored := s.alone(Request{Tokens: all, Score: &Score{Top: r.Draw.Top}})
		if scored.err != nil {
			return scored.err.Error()
		}
		for j, e := range answer {
			if e.Done != nil {
				continue
			}
			if want := scored.scores[len(r.Tokens)-1+j]; e.Token != want.Token || math.Float32bits(e.LogProb) != math.Float32bits(want.LogProb) || e.Top != nil && !slices.Equal(e.Top, want.Top) {
				return fmt.Sprintf("answer %d, token %d is %d %v %v, scored %d %v %v", i, j, e.Token, e.LogProb, e.Top, want.Token, want.LogProb, want.Top)
			}
		}
	}
	return ""
}

// differ names the first event in which two lists differ. Of a request that was cancelled the first few are enough.
func differ(got, want []Event, cancelled bool) string {
	if len(got) != len(want) && !(cancelled && len(got) < len(want)) {
		return fmt.Sprintf("%d events, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		switch {
		case (g.Done == nil) != (w.Done == nil):
			return fmt.Sprintf("event %d: %+v, want %+v", i, g, w)
		case g.Done != nil && (g.Done.Reason != w.Done.Reason || g.Done.Generated != w.Done.Generated || g.Done.Given != w.Done.Given):
			return fmt.Sprintf("its end: %+v, want %+v", *g.Done, *w.Done)
		case g.Token != w.Token || math.Float32bits(g.LogProb) != math.Float32bits(w.LogProb) || !slices.Equal(g.Top, w.Top):
			return fmt.Sprintf("event %d: token %d (%v, %v), want %d (%v, %v)", i, g.Token, g.LogProb, g.Top, w.Token, w.LogProb, w.Top)
		}
	}
	return ""
}

// smaller are plans that are a little simpler.
func (p plan) smaller() (all []plan) {
	edit := func(change func(*plan)) {
		q := p
		q.requests, q.rows, q.took = slices.Clone(p.requests), slices.Clone(p.rows), slices.Clone(p.took)
		change(&q)
		all = append(all, q)
	}
	for i := range p.requests {
		if !slices.ContainsFunc(p.requests, func(r planned) bool { return r.after == i }) {
			edit(func(q *plan) {
				q.requests = slices.Delete(q.requests, i, i+1)
				for j := range q.requests {
					if q.requests[j].after > i {
						q.requests[j].after--
					}
				}
			})
		}
	}
	if p.prefixes {
		edit(func(q *plan) { q.prefixes = false })
	}
	if p.faults > 0 {
		edit(func(q *plan) { q.faults = 0 })
	}
	if p.ahead {
		edit(func(q *plan) { q.ahead = false })
	}
	if p.whims > 0 {
		edit(func(q *plan) { q.whims = 0 })
	}
	for i, r := range p.requests {
		change := func(when bool, f func(*planned)) {
			if when {
				edit(func(q *plan) { f(&q.requests[i]) })
			}
		}
		change(r.after >= 0, func(r *planned) { r.after = -1 })
		for _, n := range []int{(len(r.Tokens) + 1) / 2, len(r.Tokens) - 1} {
			change(n > 0 && n < len(r.Tokens) && (r.Score == nil || r.Score.From < n-1), func(r *planned) { r.Tokens = r.Tokens[:n] })
		}
		change(r.Limit > 1, func(r *planned) { r.Limit = (r.Limit + 1) / 2 })
		change(r.Limit > 1, func(r *planned) { r.Limit-- })
		change(r.N > 1, func(r *planned) { r.N-- })
		change(r.cancel > 0, func(r *planned) { r.cancel = 0 })
		change(r.arrive > 0 && r.cancel == 0, func(r *planned) { r.arrive = 0 })
		change(r.First != nil, func(r *planned) { r.First = nil })
		change(r.Score != nil && r.Limit > 0, func(r *planned) { r.Score = nil })
		change(r.Ends != nil, func(r *planned) { r.Ends = nil })
		change(r.Draw.Temperature != 0 || r.Draw.Top != 0, func(r *planned) { r.Draw = sample.Draw{LogProb: true} })
	}
	if p.drafting != (drafting{}) {
		edit(func(q *plan) { q.drafting = drafting{} })
	}
	if len(p.rows) > 1 {
		edit(func(q *plan) { q.rows = q.rows[1:] })
	}
	if len(p.took) > 1 {
		edit(func(q *plan) { q.took = q.took[1:] })
	}
	return all
}

// shrunk is a plan that still fails, and of which nothing can be left out.
func (s subject) shrunk(p plan) (plan, string) {
	diff := s.violations(p)
	for again, tries := true, 0; again && tries < 2000; {
		again = false
		for _, q := range p.smaller() {
			tries++
			if d := s.violations(q); d != "" {
				p, diff, again = q, d, true
				break
			}
		}
	}
	return p, diff
}

// families are the models that plans choose from; the last, which is not tiny, seldom.
func families(d compute.Device, with func(compute.Device) compute.Device) (list []subject, err error) {
	for _, f := range []struct {
		name string
		make func(seed uint64, format gguf.Type) *tiny.Model
	}{{"llama", tiny.Llama}, {"gemma3", tiny.Gemma3}, {"gemma4", tiny.Gemma4}, {"qwen35", tiny.Qwen35}, {"qwen3moe", tiny.Qwen3MoE}, {"gpt-oss", tiny.GPTOSS}} {
		m, err := model.Open(f.make(11, gguf.Q8_0), d)
		if err != nil {
			return nil, err
		}
		list = append(list, subject{f.name, with(d), m})
	}
	file, err := builtin.GGUF(builtin.Name)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(model.GGUF(file), d)
	return append(list, subject{"builtin", with(d), m}), err
}

func asItIs(d compute.Device) compute.Device { return d }

// padding is a device that likes few shapes of steps, as GPUs do.
type padding struct{ compute.Device }

func (padding) Padded(n int) int { return compute.RoundedRows(n) }

// everyOther has the devices of every other subject like padding: with two devices of an odd number of subjects, each is tried both ways.
func everyOther() func(compute.Device) compute.Device {
	n := 0
	return func(d compute.Device) compute.Device {
		if n++; n%2 == 0 {
			return padding{d}
		}
		return d
	}
}

// number is an environment variable's, or what it is without.
func number(t testing.TB, name string, without uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q, want a number", name, text)
	}
	return n
}

// eachPlan tries plans, on so many devices at once, and returns the first that fails with what it was made from.
func eachPlan(t testing.TB, plans uint64, open func() (compute.Device, error), with func(compute.Device) compute.Device, devices int) (failing *plan, on subject, diff string) {
	t.Helper()
	seed := number(t, "MEMRA_SEED", 1)
	var mu sync.Mutex
	var wait sync.WaitGroup
	next := uint64(0)
	for range devices {
		d, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		subjects, err := families(d, with)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				stop := failing != nil || n >= plans
				mu.Unlock()
				if stop {
					return
				}
				p := draw(rand.New(rand.NewPCG(seed, n)), len(subjects)-1)
				if n%50 == 49 || strings.HasPrefix(p.kind, "mtp") { // a layer that drafts
					p.model = len(subjects) - 1
				}
				s := subjects[p.model]
				if s.violations(p) == "" {
					continue
				}
				t.Logf("MEMRA_SEED=%d, plan %d fails on %s", seed, n, s.name)
				small, d := s.shrunk(p)
				mu.Lock()
				if failing == nil {
					failing, on, diff = &small, s, d
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failing, on, diff
}

func openProcessor() (compute.Device, error) { return cpu.Open(1) }

func TestScheduleIsInvisible(t *testing.T) {
	plans := number(t, "MEMRA_SCHEDULES", 200)
	if p, s, diff := eachPlan(t, plans, openProcessor, everyOther(), 2); p != nil {
		t.Errorf("%s: %s\n%s", s.name, diff, p)
	}
	for _, c := range []struct {
		what  string
		count *atomic.Int64
		least float64 // a plan
	}{
		{"preemptions", &seen.preempted, 0.5}, {"tokens that the prefixes had", &seen.cached, 50}, {"drafts that were right", &seen.accepted, 5},
		{"requests that were cancelled", &seen.cancelled, 0.1}, {"answers by forks", &seen.forked, 0.5}, {"steps that were begun while one ran", &seen.ahead, 5},
	} {
		t.Logf("%d %s", c.count.Load(), c.what)
		if n := float64(c.count.Load()); n < c.least*float64(plans) {
			t.Errorf("%v %s in %d plans, want at least %v a plan", n, c.what, plans, c.least)
		}
	}
}

func TestScheduleIsInvisibleOnCUDA(t *testing.T) {
	open := func() (compute.Device, error) { return cuda.Open(0) }
	d, err := open()
	if err != nil {
		t.Skip(err)
	}
	d.Close()
	plans := number(t, "MEMRA_SCHEDULES", 200)
	if p, s, diff := eachPlan(t, plans, open, asItIs, min(8, runtime.NumCPU())); p != nil { // all on the one GPU: most of a step of tiny models is the host's
		t.Errorf("%s: %s\n%s", s.name, diff, p)
	}
}

// rowCount is a backend in which the norm of a row depends, in its last bits, on how many rows came with it.
type rowCount struct{ compute.Ops }

func (o rowCount) AddNorm(x, y compute.Tensor, g compute.Vector, eps float32) (s, n compute.Tensor) {
	return o.Ops.AddNorm(x, y, g, eps*(1+float32(x.Rows)))
}

// spoiled is a device with a rule broken.
type spoiled struct {
	compute.Device
	ops   func(compute.Ops) compute.Ops
	draws func([]sample.Draw)
}

func (d spoiled) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	d.draws(draws)
	return d.Device.Sample(func(ops compute.Ops) compute.Tensor { return forward(d.ops(ops)) }, draws)
}

func TestScheduleTestSeesABrokenRule(t *testing.T) {
	for _, c := range []struct {
		name string
		spoiled
	}{
		{"a norm by the number of rows", spoiled{ops: func(o compute.Ops) compute.Ops { return rowCount{o} }, draws: func([]sample.Draw) {}}},
		{"noise by the place in the batch", spoiled{ops: func(o compute.Ops) compute.Ops { return o }, draws: func(draws []sample.Draw) {
			for i := range draws {
				draws[i].Position += i
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s, diff := eachPlan(t, 50, openProcessor, func(d compute.Device) compute.Device {
				c := c.spoiled
				c.Device = d
				return c
			}, 1)
			if p == nil {
				t.Fatal("it went unseen")
			}
			if len(p.requests) > 3 {
				t.Errorf("%d requests are left of the plan that fails, want at most 3", len(p.requests))
			}
			t.Logf("%s: %s\n%s", s.name, diff, p)
		})
	}
}
