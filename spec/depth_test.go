package spec

import (
	"math"
	"slices"
	"testing"
	"time"

	"memra/compute"
)

// line is a time of a + b*n for n above 0, and 0 for none.
func line(a, b float64) func(int) float64 {
	return func(n int) float64 {
		if n == 0 {
			return 0
		}
		return a + b*float64(n)
	}
}

// each is a price of a guess at any depth.
func each(price func(int) float64) func(int, int) float64 {
	return func(_, sequences int) float64 { return price(sequences) }
}

func TestDraftsAreAsDeepAsTheirChancesAndTheirTimeAllow(t *testing.T) {
	high, low := []float64{0.9, 0.8, 0.7, 0.6}, []float64{0.3, 0.1, 0.03, 0.01}
	for _, c := range []struct {
		name        string
		rows        int
		chances     [][]float64
		step, draft func(int) float64
		want        []int
	}{
		{"rows cost nothing: all of them", 1, [][]float64{high}, line(1, 0), line(0, 0), []int{4}},
		{"a row costs what a step does: none", 1, [][]float64{high}, line(0, 1), line(0, 0), []int{0}},
		// 1, 1.9, 2.7, 3.4, 4 tokens in 1, 1.4, 1.8, 2.2, 2.6: 1, 1.357, 1.5, 1.545, 1.538
		{"guessing has its price", 1, [][]float64{high}, line(0.9, 0.1), line(0.3, 0), []int{3}},
		// 1, 1.9, 2.7, 3.4, 4 in 1, 1.7, 2.4, 3.1, 3.8: 1, 1.118, 1.125, 1.097, 1.053
		{"until one more is too much", 1, [][]float64{high}, line(0.9, 0.1), line(0.6, 0), []int{2}},
		// 2, 2.9, 3.7, 4.4, 5 in 1, 1.25, 1.5, 1.75, 2: 2, 2.32, 2.47, 2.51, 2.5
		{"what comes true is drafted, the other is not", 2, [][]float64{low, high}, line(0.5, 0.25), line(0, 0), []int{0, 3}},
		{"a gain of less than measuring errs by is none", 1, [][]float64{{0.52}}, line(0.5, 0.5), line(0, 0), []int{0}},
		// 2 rows are dear, 4 cost no more than 2: over the hill it pays
		{"a tile is filled", 1, [][]float64{high}, func(n int) float64 { return float64(min(2, n)) }, line(0, 0), []int{4}},
		{"a sequence that cannot be drafted makes its token all the same", 3, [][]float64{high}, line(2.7, 0.1), line(0, 0), []int{4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var choices []choice
			for _, chances := range c.chances {
				choices = append(choices, choice{chances: chances})
			}
			got, pays := depths(c.rows, choices, prices{c.step, each(c.draft), func(int, float64) bool { return true }, compute.RoundedRows})
			if !slices.Equal(got, c.want) || pays != (slices.Max(c.want) > 0) {
				t.Errorf("depths %v, pays %v, want %v", got, pays, c.want)
			}
		})
	}
}

func TestAFirstGuessMayBeDearerThanFurtherOnes(t *testing.T) {
	var g guesses
	for i := range 200 {
		slow := 1 + 2*float64(i/20%2) // others come and go
		g.learn(0, 1, 0.9*slow)
		g.learn(1, 1, 0.6*slow)
		g.learn(2, 1, 0.6*slow)
	}
	for range 2 * few {
		g.learn(0, 1, 0.9) // alone
	}
	for depth, want := range []float64{0.9, 0.6, 0.6} {
		if got := g.of(depth, 1); math.Abs(got-want) > 0.02 {
			t.Errorf("a guess after %d drafts takes %.2f, want %.2f", depth, got, want)
		}
	}
}

func TestTheBetterGuessesAreThoseThatBringMoreForTheirTime(t *testing.T) {
	model, text := []float64{0.9, 0.8, 0.7}, []float64{0.6, 0.5, 0.4}
	for _, c := range []struct {
		name  string
		draft func(int) float64
		text  []float64
		free  bool
	}{
		{"a model that costs nothing", line(0, 0), text, false},
		{"a model that costs little", line(0.05, 0), text, false},
		{"a model that costs more than it is better", line(0.4, 0), text, true},
		{"a text that repeats", line(0.05, 0), model, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := better(1, choice{chances: model}, choice{c.text, true}, line(0.9, 0.1), each(c.draft))
			if got.free != c.free {
				t.Errorf("those that cost nothing: %v, want %v", got.free, c.free)
			}
		})
	}
}

func TestAMeterDrawsLinesBetweenWhatItKnows(t *testing.T) {
	var m meter
	want := func(size int, seconds float64) {
		t.Helper()
		if got := m.of(size); got < seconds-1e-9 || got > seconds+1e-9 {
			t.Errorf("size %d takes %v, want %v", size, got, seconds)
		}
	}
	want(3, 0)
	learn := func(size int, seconds float64) {
		for range preparing {
			m.learn(size, 77)
		}
		m.learn(size, seconds)
	}
	learn(2, 4)
	want(2, 4)
	want(4, 6) // half of it is always there
	learn(6, 8)
	want(4, 6)
	want(8, 10)
	want(1, 3)
	for range 9 {
		m.learn(6, 3) // what was longer has become shorter
	}
	want(6, 3)
	want(60, 3)
	m.learn(6, 1000) // once
	want(6, 3)
	m.learn(2, 4)
	learn(4, 9) // an odd time: six rows took 3
	want(4, 3)
	want(2, 3)
	learn(8, 9) // another: more than the line through 4 and 6, and seen once
	want(8, 3)
	m.learn(8, 9)
	m.learn(8, 9)
	want(8, 9)
}

func TestRatesAreTheSequencesOwnWhereItHasSome(t *testing.T) {
	own, all := acceptance{memory: 64}, acceptance{memory: 512}
	near := func(what string, got, low, high float64) {
		t.Helper()
		if got < low || got > high {
			t.Errorf("%s: %.3f, want %.2f to %.2f", what, got, low, high)
		}
	}
	near("nothing is known", rates(&own, &all, 1)[0], hope, hope)
	for range 100 {
		all.learn(2, 1) // the first always comes true, the second never
	}
	r := rates(&own, &all, 3)
	near("others' first", r[0], 0.95, 1)
	near("others' second", r[1], 0, 0.1)
	near("deeper than anybody was", r[2], 0, 0.01)
	for range 100 {
		own.learn(2, 0)
	}
	near("its own first", rates(&own, &all, 1)[0], 0, 0.1)
	for range 200 {
		own.learn(2, 2)
	}
	near("its own first, later", rates(&own, &all, 1)[0], 0.9, 1)
}

// fixed guesses sevens.
type fixed struct{ *Lookup }

func (fixed) Begin() Memory { return sighted{} }
func (fixed) Await() error  { return nil }

func (fixed) Draft(asks []*Ask) error {
	for _, a := range asks {
		for range a.Depth {
			a.Drafts = append(a.Drafts, 7)
		}
	}
	return nil
}

type sighted struct{}

func (sighted) Sight([]int32) (paid, free int) { return None, 0 }
func (sighted) Free()                          {}
func (sighted) Fork() Memory                   { return sighted{} }

// play runs rounds of one sequence whose drafts come true to some depth, where a row more takes a share of a step more. It returns the
// rounds that were drafted.
func play(s *Speculator, q *Sequence, rounds, right int, dear float64) (drafted int) {
	for range rounds {
		a := &Ask{Sequence: q, Tokens: []int32{1}, Most: 4}
		if err := s.Draft(1, []*Ask{a}); err != nil {
			panic(err)
		}
		n := len(a.Drafts)
		if n > 0 {
			drafted++
		}
		s.Verified(q, n, min(n, right))
		s.Took(1+n, time.Duration(float64(time.Millisecond)*(1+dear*float64(n))))
	}
	return drafted
}

func TestDraftingStopsWhereItDoesNotPayAndIsTriedAgain(t *testing.T) {
	s := New(fixed{}, 4, exact)
	q := s.Begin()
	if n := play(s, q, 100, 4, 0.1); n < 85 {
		t.Errorf("drafts that come true: %d of 100 rounds have some, want nearly all", n)
	}
	play(s, q, 100, 0, 0.5) // some rounds to learn that they do not
	if n := play(s, q, 10000, 0, 0.5); n > 80 || n < 10 {
		t.Errorf("drafts that never come true: %d of 10,000 rounds have some, want a few", n)
	}
	play(s, q, 3000, 4, 0.1)
	if n := play(s, q, 100, 4, 0.1); n < 90 {
		t.Errorf("when they come true again: %d of 100 rounds have some, want nearly all", n)
	}
	if st := s.Stats(); st.Drafted[0] != st.Rounds || st.Accepted[0] == 0 || st.Accepted[0] > st.Drafted[0] || st.Drafted[3] > st.Drafted[0] {
		t.Errorf("statistics %+v do not add up", st)
	}
}

// A step may be begun before the last one's tokens are known where nothing would be guessed after them: not while guesses pay, and with a look now and
// then at whether they do, without which nobody would notice.
func TestStepsAreBegunAheadWhereNothingWouldBeGuessed(t *testing.T) {
	ahead := func(s *Speculator, q *Sequence, rounds, right int, dear float64) (quiet int) {
		for range rounds {
			if s.Quiet(1, []*Ask{{Sequence: q, Tokens: []int32{1}, Most: 4}}) {
				quiet++
				s.Took(1, time.Millisecond)
			} else {
				play(s, q, 1, right, dear)
			}
		}
		return quiet
	}
	s := New(fixed{}, 4, exact)
	q := s.Begin()
	for _, c := range []struct {
		name        string
		rounds      int
		right       int
		dear        float64
		least, most int // that are quiet
	}{
		{"guesses that come true", 200, 4, 0.1, 0, 16},
		{"at first, guesses that do not", 200, 0, 0.5, 0, 200},
		{"guesses that do not", 4000, 0, 0.5, 3900, 3990}, // some are tries
		{"guesses that do again, until that is noticed", 4000, 4, 0.1, 0, 4000},
		{"and when it is", 200, 4, 0.1, 0, 10},
	} {
		if n := ahead(s, q, c.rounds, c.right, c.dear); n < c.least || n > c.most {
			t.Errorf("%s: %d of %d steps may be begun ahead, want %d to %d", c.name, n, c.rounds, c.least, c.most)
		}
	}
	if s := New(fixed{}, 4, exact).Always(); ahead(s, s.Begin(), 50, 0, 0.5) > 0 {
		t.Error("a step is begun ahead where guesses are always made")
	}
	if s := New(fixed{}, 0, exact); ahead(s, s.Begin(), 50, 0, 0.5) < 50 {
		t.Error("a step waits for the one before where nothing is ever guessed")
	}
}

// heldUp takes a tenth of a millisecond to guess, but once a second.
type heldUp struct {
	fixed
	clock *time.Time
	drafts,
	odd int
	expected float64
}

func (h *heldUp) Draft(asks []*Ask) error {
	took := 100 * time.Microsecond
	if h.drafts++; h.drafts == h.odd {
		took = time.Second
	}
	*h.clock = h.clock.Add(took)
	return h.fixed.Draft(asks)
}
func (h *heldUp) Expected() float64 { return h.expected }

func TestAGuessThatOthersHeldUpForbidsNoMore(t *testing.T) {
	for _, c := range []struct {
		expected    float64
		least, most int // rounds with drafts of 100 behind it
	}{{100e-6, 90, 100}, {0, 0, 10}} { // what is not known to take less may take as long again
		clock := time.Unix(0, 0)
		s := New(&heldUp{clock: &clock, odd: 50, expected: c.expected}, 4, exact)
		s.now = func() time.Time { return clock }
		q := s.Begin()
		for s.drafter.(*heldUp).drafts < 50 {
			play(s, q, 1, 4, 0.1)
		}
		if n := play(s, q, 100, 4, 0.1); n < c.least || n > c.most {
			t.Errorf("expected to take %v s: %d of 100 rounds have drafts, want %d to %d", c.expected, n, c.least, c.most)
		}
	}
}

func TestWithoutRoomNothingIsDrafted(t *testing.T) {
	for _, s := range []*Speculator{New(fixed{}, 4, exact), New(fixed{}, 4, exact).Always(), New(fixed{}, 0, exact)} {
		s.Took(1, time.Millisecond)
		a := &Ask{Sequence: s.Begin(), Tokens: []int32{1}, Most: 0}
		b := &Ask{Sequence: s.Begin(), Tokens: []int32{1}, Most: 2}
		if err := s.Draft(2, []*Ask{a, b}); err != nil || len(a.Drafts) > 0 || len(b.Drafts) > min(2, s.Most()) {
			t.Errorf("drafts %v and %v, error %v, want none and up to %d", a.Drafts, b.Drafts, err, min(2, s.Most()))
		}
	}
}
