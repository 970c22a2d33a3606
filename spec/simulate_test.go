package spec

import (
	"math/rand/v2"
	"testing"
	"time"

	"memra/compute"
)

// exact is how a device pads that does not.
func exact(n int) int { return n }

// machine is how long steps and guesses take on some device.
type machine struct {
	name        string
	step, draft func(rows int) float64 // milliseconds
	first       float64                // how much longer the first two steps of a size take
	list        float64                // milliseconds that the first two steps, or guesses, of a list of launches take longer
	remember    float64                // milliseconds that a guess takes longer for each row that has waited for it
	gap         float64                // milliseconds that a step takes longer that was not begun while the one before ran
	padded      func(int) int
}

// table is a time by rows, with lines between and beyond.
func table(at map[int]float64) func(int) float64 {
	var m meter
	for size, t := range at {
		for range preparing + sure {
			m.learn(size, t)
		}
	}
	return func(n int) float64 {
		if n == 0 {
			return 0
		}
		return m.of(n)
	}
}

// simulated is a drafter whose guesses take time, on a clock of its own.
type simulated struct {
	*Lookup
	machine
	*weather
	clock *float64
	times guesses
	lists lists
}

// lists are those that a device has prepared for, and how often they came.
type lists map[[3]int]int

// price is what a list takes longer this time.
func (l lists) price(m machine, kind, a, b int) float64 {
	key := [3]int{kind, a, b}
	if l[key]++; l[key] > 2 {
		return 0
	}
	return m.list
}

func (s *simulated) Begin() Memory { return new(guessable) }
func (s *simulated) Cost(depth, n int) float64 {
	if n == 0 {
		return 0
	}
	return s.times.of(depth, n)
}

func (s *simulated) Await() error { return nil }

func (s *simulated) Draft(asks []*Ask) error {
	for depth := 0; ; depth++ {
		n, rows := 0, 0
		for _, a := range asks {
			if a.Depth > depth {
				a.Drafts = append(a.Drafts, 0)
				n++
				m := a.memory().(*guessable)
				rows += 1 + m.waited
				m.waited = 0
			}
		}
		if n == 0 {
			return nil
		}
		took := s.draft(n) + s.remember*float64(rows-n) + s.lists.price(s.machine, 1, powerOfTwo(n), powerOfTwo(rows))
		s.times.learn(depth, n, s.pass(took, s.clock)/1000)
	}
}

// weather is what others do to the times that are measured.
type weather struct {
	rng   *rand.Rand
	noisy bool
	slow  float64 // how much longer everything takes now
	seen  float64 // time that seems to have passed, in milliseconds
	steps int
}

// pass has so much time pass on a clock, and says how much more it seems.
func (w *weather) pass(took float64, clock *float64) float64 {
	*clock += took
	if w.noisy {
		if w.steps++; w.steps%300 == 0 { // others come and go
			w.slow = 1 + 2*float64(w.rng.IntN(2))
		}
		took *= w.slow * (0.9 + 0.2*w.rng.Float64())
		if w.rng.IntN(20) == 0 {
			took *= 3
		}
	}
	w.seen += took
	return took
}

// guessable remembers how many rows wait to be remembered.
type guessable struct{ waited int }

func (*guessable) Sight([]int32) (paid, free int) { return byModel, None }
func (*guessable) Free()                          {}
func (*guessable) Fork() Memory                   { return new(guessable) }

// race is how much faster streams come to so many tokens each, in the mean, with drafts, of which those at each depth come true with a chance.
func race(m machine, streams, tokens int, chances []float64, noisy bool, seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &weather{rng: rng, noisy: noisy, slow: 1}
	clock, known := 0.0, lists{}
	step := func(rows int, ahead bool) float64 {
		rows = m.padded(rows)
		took := m.step(rows) + known.price(m, 0, rows, streams)
		if !ahead {
			took += m.gap
		}
		if known[[3]int{0, rows, streams}] <= 2 {
			took *= m.first
		}
		return w.pass(took, &clock)
	}
	for range tokens {
		step(streams, true)
	}
	plain := clock
	clock, known = 0, lists{}
	s := New(&simulated{machine: m, clock: &clock, weather: w, lists: lists{}}, 8, m.padded)
	s.now = func() time.Time { return time.Unix(0, int64(w.seen*1e6)) }
	asks := make([]*Ask, streams)
	for i := range asks {
		asks[i] = &Ask{Sequence: s.Begin(), Most: 8}
	}
	ahead := false
	for left := streams * tokens; left > 0; left -= streams {
		if !ahead {
			if err := s.Draft(streams, asks); err != nil {
				panic(err)
			}
		}
		rows := streams
		for _, a := range asks {
			rows += len(a.Drafts)
		}
		took := step(rows, ahead)
		ahead = m.gap > 0 && rows == streams && s.Quiet(streams, asks) // while it runs
		s.Took(rows, time.Duration(took*float64(time.Millisecond)))
		for _, a := range asks {
			n := 0
			for n < len(a.Drafts) && rng.Float64() < chances[min(n, len(chances)-1)] {
				n++
			}
			s.Verified(a.Sequence, len(a.Drafts), n)
			left -= n
			m := a.memory().(*guessable)
			m.waited = min(m.waited+n+1, 64)
		}
	}
	return plain / clock
}

// Times much like the built-in model's on two cores and on one, and devices at the ends of what there may be.
var machines = []machine{
	{"two cores", table(map[int]float64{1: 0.244, 2: 0.268, 3: 0.305, 4: 0.38, 8: 0.70, 16: 1.20, 32: 2.4}), table(map[int]float64{1: 0.06, 2: 0.065, 4: 0.11, 16: 0.40}), 1, 0, 0, 0, exact},
	{"one core", table(map[int]float64{1: 0.39, 2: 0.43, 3: 0.60, 4: 0.79, 8: 1.36, 16: 2.8, 32: 5.6}), table(map[int]float64{1: 0.106, 2: 0.13, 4: 0.2, 16: 0.7}), 1, 0, 0, 0, exact},
	{"a GPU", table(map[int]float64{1: 5, 16: 5.6, 64: 7.8, 128: 10}), table(map[int]float64{1: 0.45, 16: 0.5, 64: 0.7}), 4, 0, 0, 0, compute.RoundedRows},
	{"a small model on a GPU", table(map[int]float64{1: 0.8, 16: 1, 64: 1.5, 128: 2.2}), table(map[int]float64{1: 0.2, 16: 0.25, 64: 0.35}), 1, 3, 0.001, 0, compute.RoundedRows},
	{"a GPU that prepares for long", table(map[int]float64{1: 1, 16: 1.4, 64: 2.6, 128: 4.2}), table(map[int]float64{1: 0.4, 16: 0.5, 64: 0.7}), 1, 5, 0, 0, compute.RoundedRows},
	{"a layer that is slow to remember", table(map[int]float64{1: 0.6, 4: 0.7, 16: 1.5, 32: 2.8}), table(map[int]float64{1: 0.06, 4: 0.11, 16: 0.40}), 1, 0, 0.05, 0, exact},
	{"arithmetic alone", line(0, 1), line(0, 0.1), 1, 0, 0, 0, exact},
	{"a small model on a GPU that takes steps in ahead", table(map[int]float64{1: 0.31, 16: 0.39, 64: 0.7, 128: 1.1}), table(map[int]float64{1: 0.08, 16: 0.1, 64: 0.14}), 1, 3, 0, 0.07, compute.RoundedRows},
	{"a GPU that takes steps in ahead", table(map[int]float64{1: 2.7, 16: 3.8, 64: 6.8, 128: 10}), table(map[int]float64{1: 0.3, 16: 0.4, 64: 0.6}), 1, 5, 0, 0.1, compute.RoundedRows},
}

// All that is learned is learned within the race: what steps and guesses take, and how many come true. A device that prepares for launches may
// lose the time that is allowed for that.
func TestDraftsAreNeverMuchSlowerThanNone(t *testing.T) {
	good, fair, bad := []float64{0.92, 0.84, 0.78, 0.74}, []float64{0.6, 0.5, 0.4}, []float64{0.1}
	faster := func(m machine, streams int, chances []float64, noisy bool, least float64) {
		t.Helper()
		const races = 3
		ratio := 0.0
		for seed := range uint64(races) {
			ratio += race(m, streams, 2000, chances, noisy, seed) / races
		}
		if prepares(m.padded) { // once
			least = 1 / (1/least + preparation*1000/(2000*m.step(streams)))
		}
		if t.Logf("%.2f times as fast: %s, %d streams, chances %v, noise %v", ratio, m.name, streams, chances, noisy); ratio < least {
			t.Errorf("%.3f times as fast, want at least %v: %s, %d streams, chances %v, noise %v", ratio, least, m.name, streams, chances, noisy)
		}
	}
	for _, m := range machines {
		for _, streams := range []int{1, 4, 16} {
			for _, chances := range [][]float64{good, fair, bad} {
				for _, noisy := range []bool{false, true} {
					faster(m, streams, chances, noisy, 0.98)
				}
			}
		}
	}
	faster(machines[0], 1, good, true, 1.4)
	faster(machines[1], 1, good, true, 1.3)
	faster(machines[2], 1, good, true, 2)
	faster(machines[2], 4, good, true, 1.5)
	faster(machines[3], 1, good, true, 1.4)
	faster(machines[3], 4, good, true, 1.3)
	faster(machines[3], 16, good, false, 1.12)
	faster(machines[7], 1, good, true, 1.4)
	faster(machines[7], 4, good, true, 1.3)
	faster(machines[8], 1, good, true, 1.8)
}
