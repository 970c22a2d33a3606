package spec

import (
	"slices"
	"time"

	"memra/compute"
	"memra/state"
)

// Speculator decides how deep sequences are drafted. It belongs to the goroutine that computes.
type Speculator struct {
	drafter Drafter
	most    int
	padded  func(rows int) int // that a step of so many has
	round   func(rows int) int // up to what steps with drafts may have
	always  bool               // as deep as there is room for, whatever it costs: for tests and measurements
	all     [Sights]acceptance
	steps   meter
	now     func() time.Time
	account account
	invest  float64 // seconds that may be lost, once, beside what the account allows
	last    round
	drafted int  // steps in a row with drafts
	until   int  // so many of them one has none
	look    int  // steps without that are still to come, so that it is known what they take
	bare    int  // steps in a row without, up to the last
	doubt   bool // the last of them was not what such steps are known to take
	idle    int  // times in a row that no draft was made, though some could have been
	wait    int  // such times until the next try
	trying  int  // steps of a try that are still to come, now or as soon as none seem to pay
	stats   Stats
}

// round is what is known of the last step: it is accounted for when it is known which of its drafts were right.
type round struct {
	decoding, drafts, kept int
	hoped                  float64 // how many drafts were expected to be kept
	try                    bool    // they were not expected to pay
	guessing, step         float64 // seconds; step 0: it was not only of rows that decode
}

// Stats are what became of drafts.
type Stats struct {
	Rounds   int   // steps of a sequence with drafts
	Drafted  []int // by depth: so many were made
	Accepted []int // and so many were what was drawn
}

const (
	patience    = 64   // first wait for a try
	mostPatient = 2048 // and the last
	tries       = 4    // steps of a try, at least
	preparation = 0.1  // seconds
	rare        = 8    // times that nothing pays between two looks at whether it still does not
	soon        = 8    // steps with drafts until a few have none, so that it is known what such steps take, when drafts begin to pay
	plainly     = 40   // and later
	looks       = 2    // the few: the first of them is no measure, for it was not begun while the one before ran
)

// New makes a speculator of drafts up to a depth, for a device that pads steps (compute.Device.Padded).
func New(d Drafter, most int, padded func(rows int) int) *Speculator {
	s := &Speculator{drafter: d, most: min(max(most, 0), MostDepth), padded: padded, round: compute.RoundedRows, now: time.Now, account: account{balance: initially, odd: 1}, until: soon, wait: patience, trying: tries}
	if prepares(padded) {
		s.round, s.invest = powerOfTwo, preparation
	}
	for i := range s.all {
		s.all[i].memory = 512
	}
	s.stats.Drafted, s.stats.Accepted = make([]int, s.most), make([]int, s.most)
	return s
}

// Always has every sequence drafted as deep as there is room for, whether it pays or not.
func (s *Speculator) Always() *Speculator {
	s.always = true
	return s
}

// Kind names the drafter.
func (s *Speculator) Kind() string { return s.drafter.Kind() }

// Most is the depth that New was given.
func (s *Speculator) Most() int { return s.most }

// Close gives back what the drafter holds.
func (s *Speculator) Close() error { return s.drafter.Close() }

// Sequence is what is remembered of a sequence between steps.
type Sequence struct {
	memory     Memory
	own        [Sights]acceptance
	paid, free int // what guesses could be made of
	sight      int // and were
}

// Begin is a new sequence.
func (s *Speculator) Begin() *Sequence {
	q := &Sequence{memory: s.drafter.Begin(), sight: None}
	for i := range q.own {
		q.own[i].memory = 64
	}
	return q
}

// Fork is a sequence with the same tokens so far.
func (q *Sequence) Fork() *Sequence {
	f := *q
	f.memory = q.memory.Fork()
	return &f
}

// Free gives back what the sequence holds on the device. It may go on: it only remembers nothing.
func (q *Sequence) Free() { q.memory.Free() }

// Share is a sequence's part of a step: see Share.
func (q *Sequence) Share(tokens []int32, row, from, rows int) Share {
	return Share{Memory: q.memory, Tokens: tokens, Row: row, From: from, Rows: rows}
}

// Forward is the model's forward for a step.
func (s *Speculator) Forward(b *compute.Batch, v *state.View, shares []Share) func(compute.Ops) compute.Tensor {
	return s.drafter.Forward(b, v, shares)
}

// Draft guesses what follows each ask's tokens, as deep as pays in a step in which so many sequences decode, those that ask included.
func (s *Speculator) Draft(decoding int, asks []*Ask) error {
	s.settle()
	s.last = round{}
	able, free := s.able(asks)
	if len(able) == 0 {
		return nil
	}
	s.last.decoding = decoding
	switch {
	case s.always:
	case s.look > 0:
		s.look--
		return nil
	case s.idle%rare != 0 && !s.due() && !free: // nothing new is known
		s.idle++
		return nil
	}
	if s.choose(decoding, able); !slices.ContainsFunc(able, func(a *Ask) bool { return a.Depth > 0 }) {
		return nil
	}
	began := s.now()
	err := s.drafter.Draft(able)
	s.last.guessing = s.now().Sub(began).Seconds()
	if known := s.drafter.Expected(); known > 0 {
		s.last.guessing = min(s.last.guessing, outlier*known)
	}
	for _, a := range able {
		s.last.drafts += len(a.Drafts)
	}
	return err
}

// Await waits for guesses that are compute.Drawn, once the step has been begun, and puts tokens in their place (Drafter.Await). It says how long it
// waited: the step began no sooner, and that time is the guesses'.
func (s *Speculator) Await() (waited time.Duration, err error) {
	began := s.now()
	err = s.drafter.Await()
	waited = s.now().Sub(began)
	s.last.guessing += waited.Seconds()
	return waited, err
}

// Quiet reports whether Draft would guess nothing, and if so counts a step without guesses. It is asked before the last step has ended: what its rows
// draw comes after the asks' tokens, and is not known. So what a text says of the tokens before has to do.
func (s *Speculator) Quiet(decoding int, asks []*Ask) bool {
	able, free := s.able(asks)
	if len(able) == 0 {
		return true
	}
	switch {
	case s.always:
		return false
	case !s.steps.sure(s.padded(decoding)): // but by steps without guesses
	case s.look > 0:
		s.look--
	case s.idle == 0 || s.due():
		return false
	default:
		if free || s.idle%rare == 0 {
			p := s.prices(decoding)
			if _, pays := depths(decoding, s.choices(decoding, able, p, true), p); pays {
				return false
			}
		}
		s.idle++
	}
	s.settle()
	s.last = round{decoding: decoding}
	return true
}

// able are the asks for which something could be guessed, and whether any of that takes no time.
func (s *Speculator) able(asks []*Ask) (able []*Ask, free bool) {
	for _, a := range asks {
		a.Depth, a.Drafts = 0, a.Drafts[:0]
		q := a.Sequence
		if q.paid, q.free = a.memory().Sight(a.Tokens); max(q.paid, q.free) != None && min(a.Most, s.most) > 0 {
			able = append(able, a)
			free = free || q.free != None
		}
	}
	return able, free
}

// due reports whether it is time to try what does not seem to pay.
func (s *Speculator) due() bool { return s.account.balance > 0 && (s.trying > 0 || s.idle >= s.wait) }

// choose gives each ask its depth, and says which guesses it is to have.
func (s *Speculator) choose(decoding int, asks []*Ask) {
	known := s.steps.sure(s.padded(decoding))
	if !known && !s.always { // the first steps are plain, so that there is something to compare with
		return
	}
	p := s.prices(decoding)
	choices := s.choices(decoding, asks, p, known)
	if s.always {
		for i, a := range asks {
			a.Depth = len(choices[i].chances)
		}
		return
	}
	chosen, pays := depths(decoding, choices, p)
	if !pays && s.drafted > 0 { // not at once: it may be a few odd times, or guesses
		s.drafted, s.trying = 0, max(s.trying, s.tries())
	}
	if !pays {
		s.until = soon
	}
	try := false
	switch {
	case pays:
		s.idle, s.wait = 0, patience
		if s.drafted++; s.drafted > s.until || s.drafted > 1 && s.account.sinks() || s.doubt {
			s.drafted, s.until, s.look = 0, min(2*s.until, plainly), looks-1
			return
		}
	case s.account.balance > 0 && s.trying > 0:
		s.trying--
		try = true
	case s.account.balance > 0 && s.idle >= s.wait: // what did not pay may pay now
		s.idle, s.wait, s.trying = 0, min(2*s.wait, mostPatient), s.tries()-1
		try = true
	default:
		s.idle++
		return
	}
	if try {
		chosen = s.boldest(decoding, choices, p)
	}
	for i, a := range asks {
		a.Depth = chosen[i]
		for _, c := range choices[i].chances[:a.Depth] {
			s.last.hoped += c
		}
	}
	if s.last.try = try; s.last.hoped < (gain-1)*float64(decoding) { // however little rows took
		s.trying = min(s.trying, tries-1)
	}
}

// boldest is the step of a try: what would pay if rows took no time beyond those of which it is known, as far as it may be dared; or as few guesses
// as make a size.
func (s *Speculator) boldest(decoding int, choices []choice, p prices) []int {
	p.step = func(rows int) float64 { return s.steps.atLeast(s.padded(rows)) }
	if chosen, pays := depths(decoding, choices, p); pays {
		return chosen
	}
	return fewest(decoding, choices, p.round)
}

// tries is how many steps a try has: the more, the more it may lose. What a step takes when the one before had no guesses says little of
// what it takes when all have.
func (s *Speculator) tries() int { return tries + int(min(max(0, s.account.balance), mostSaved)/3) }

// prices are what is known, for a step in which so many sequences decode.
func (s *Speculator) prices(decoding int) prices {
	plain := s.steps.of(s.padded(decoding))
	return prices{
		step:  func(rows int) float64 { return s.steps.of(s.padded(rows)) },
		draft: s.drafter.Cost,
		dares: func(rows int, loss float64) bool {
			return !s.account.resting && (loss <= max(s.account.balance, little)*plain || s.steps.sure(s.padded(rows)))
		},
		round: s.round,
	}
}

// choices are the guesses that each ask could have: of two kinds those that are better, as far as that is known.
func (s *Speculator) choices(decoding int, asks []*Ask, p prices, known bool) []choice {
	choices := make([]choice, len(asks))
	for i, a := range asks {
		q, n := a.Sequence, min(a.Most, s.most)
		both := [2]choice{{free: false}, {free: true}}
		for j, sight := range []int{q.paid, q.free} {
			if sight != None {
				both[j].chances = rates(&q.own[sight], &s.all[sight], n)
			}
		}
		switch {
		case q.paid == None:
			choices[i] = both[1]
		case q.free == None || !known:
			choices[i] = both[0]
		default:
			choices[i] = better(decoding, both[0], both[1], p.step, p.draft)
		}
		if a.Free = choices[i].free; a.Free {
			q.sight = q.free
		} else {
			q.sight = q.paid
		}
	}
	return choices
}

// Verified hears what became of a sequence's drafts.
func (s *Speculator) Verified(q *Sequence, drafted, accepted int) {
	if drafted == 0 {
		return
	}
	s.last.kept += accepted
	q.own[q.sight].learn(drafted, accepted)
	s.all[q.sight].learn(drafted, accepted)
	s.stats.Rounds++
	for i := range drafted {
		s.stats.Drafted[i]++
		if i < accepted {
			s.stats.Accepted[i]++
		}
	}
}

// Took hears how long a step took in which sequences decoded, and nothing else: so many rows in all, without padding.
func (s *Speculator) Took(rows int, d time.Duration) {
	if s.bare++; s.last.drafts > 0 {
		s.bare = 0
	} else if s.bare < looks {
		return
	}
	s.last.step = d.Seconds()
	if forgot := s.steps.learn(s.padded(rows), d.Seconds()); forgot {
		s.account.revoke()
		s.last.step = 0
		if s.idle == 0 { // drafts paid, and may again
			s.trying = s.tries()
		}
	}
}

// settle accounts for the last step.
func (s *Speculator) settle() {
	l, plain := &s.last, s.steps.of(s.padded(s.last.decoding))
	if plain > 0 && s.invest > 0 {
		s.account.invest(s.invest / plain)
		s.invest = 0
	}
	if l.try && float64(l.kept) > 1.25*l.hoped+0.25 { // better than was known: the try goes on
		s.trying = max(s.trying, 1)
	}
	switch {
	case l.step == 0 || plain == 0:
	case l.drafts == 0:
		time := l.step / plain
		s.doubt = time > much || time < 1/much
		s.account.plain(time)
	default:
		step, rows := l.step, s.padded(l.decoding+l.drafts)
		if s.steps.sure(rows) {
			known := s.steps.of(rows)
			step = min(max(step, known/outlier), outlier*known)
		}
		s.account.step(float64(l.decoding+l.kept)/float64(l.decoding), (step+l.guessing)/plain)
	}
}

// Stats are what became of all drafts so far.
func (s *Speculator) Stats() Stats {
	return Stats{s.stats.Rounds, append([]int(nil), s.stats.Drafted...), append([]int(nil), s.stats.Accepted...)}
}
