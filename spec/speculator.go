package spec

import (
	"time"

	"memra/compute"
	"memra/state"
)

// Speculator decides how deep sequences are drafted. It belongs to the goroutine that computes.
type Speculator struct {
	drafter Drafter
	most    int
	always  bool // as deep as there is room for, whatever it costs: for tests and measurements
	all     [Sights]acceptance
	steps   meter
	drafted int // steps in a row with drafts
	idle    int // times in a row that no draft was made, though some could have been
	wait    int // such times until the next try
	trying  int // drafts of a try that are still to come, now or as soon as none seem to pay
	stats   Stats
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
	tries       = 4    // rounds of a try
	plain       = 40   // steps with drafts until one has none, so that it is known what such a step takes
)

// New makes a speculator of drafts up to a depth.
func New(d Drafter, most int) *Speculator {
	s := &Speculator{drafter: d, most: min(max(most, 0), MostDepth), wait: patience, trying: tries}
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
	var able []*Ask
	for _, a := range asks {
		a.Depth, a.Drafts = 0, a.Drafts[:0]
		q := a.Sequence
		if q.paid, q.free = a.memory().Sight(a.Tokens); max(q.paid, q.free) != None && min(a.Most, s.most) > 0 {
			able = append(able, a)
		}
	}
	if len(able) == 0 {
		return nil
	}
	s.choose(decoding, able)
	return s.drafter.Draft(able)
}

// choose gives each ask its depth, and says which guesses it is to have.
func (s *Speculator) choose(decoding int, asks []*Ask) {
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
		case q.free == None || !s.steps.known():
			choices[i] = both[0]
		default:
			choices[i] = better(decoding, both[0], both[1], s.steps.of, s.drafter.Cost)
		}
		if a.Free = choices[i].free; a.Free {
			q.sight = q.free
		} else {
			q.sight = q.paid
		}
	}
	if s.always {
		for i, a := range asks {
			a.Depth = len(choices[i].chances)
		}
		return
	}
	if !s.steps.known() { // the first steps are plain, so that there is something to compare with
		return
	}
	chosen, pays := depths(decoding, choices, s.steps.of, s.drafter.Cost)
	for i, a := range asks {
		a.Depth = chosen[i]
	}
	switch {
	case pays:
		s.idle, s.wait = 0, patience
		if s.drafted++; s.drafted > plain {
			s.drafted = 0
			for _, a := range asks {
				a.Depth = 0
			}
		}
	case s.trying > 0:
		s.trying--
		asks[0].Depth = 1
	case s.idle < s.wait:
		s.idle++
	default: // what did not pay may pay now
		s.idle, s.wait, s.trying = 0, min(2*s.wait, mostPatient), tries-1
		asks[0].Depth = 1
	}
}

// Verified hears what became of a sequence's drafts.
func (s *Speculator) Verified(q *Sequence, drafted, accepted int) {
	if drafted == 0 {
		return
	}
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

// Took hears how long a step took in which sequences decoded, and nothing else: so many rows in all.
func (s *Speculator) Took(rows int, d time.Duration) {
	if forgot := s.steps.learn(rows, d.Seconds()); forgot && s.idle == 0 { // drafts paid, and may again
		s.trying = tries
	}
}

// Stats are what became of all drafts so far.
func (s *Speculator) Stats() Stats {
	return Stats{s.stats.Rounds, append([]int(nil), s.stats.Drafted...), append([]int(nil), s.stats.Accepted...)}
}
