package engine

import (
	"math/bits"
	"time"

	"memra/compute"
)

// share lets prompts ride in steps that decode, and keeps what that costs within bounds: over time such steps take at most `slower`
// times what they take alone.
//
// It is an account of seconds. Each step that decodes pays in what it may be slower; the rows of a prompt that ride are paid from it, at
// what the step then took longer than alone. So the bound holds however the device's time depends on rows and depths: the estimates only
// say when to ride, and with how many. A few rows cost about as much as one, above all deep in a prompt, where each step reads all keys
// before; so fewer than ride wait until the account has more.
type share struct {
	alone   map[int]*alone // by rows, roughly: steps that decode so many and nothing else
	row     float64        // seconds that a row of a prompt adds
	rode    int            // rows that rode last; 0: none ever did
	account float64        // seconds; below zero: owed
}

const (
	slower  = 1.4
	ride    = compute.Page // rows
	renewed = 16           // steps with riders after which one without measures again
)

// alone is what steps of about one number of decode rows take.
type alone struct {
	seconds float64
	since   int // steps with riders since it was measured
}

// roughly is a number of rows to an eighth: drafts change it from step to step.
func roughly(rows int) int {
	shift := max(0, bits.Len(uint(rows))-4)
	return rows >> shift << shift
}

// beside is how many rows of prompts, of those that are missing, may ride in a step of so many decode rows.
func (s *share) beside(decoding, missing int) int {
	a := s.alone[roughly(decoding)]
	switch {
	case a == nil || a.since >= renewed:
		return 0
	case s.rode == 0:
		return ride
	}
	n := int(min((s.account+(slower-1)*a.seconds)/s.row, max(ride, 2*float64(s.rode))))
	if n < min(ride, missing) {
		return 0
	}
	return n
}

// learn hears what a step of decode rows, and of riders, took.
func (s *share) learn(decoding, riding int, took time.Duration) {
	t := max(took.Seconds(), 1e-9)
	if decoding == 0 {
		return
	}
	a := s.alone[roughly(decoding)]
	if a == nil {
		a = &alone{seconds: t}
		s.alone[roughly(decoding)] = a
	}
	s.account += (slower - 1) * a.seconds
	if riding == 0 {
		a.seconds, a.since = towards(a.seconds, t), 0
		s.account = min(s.account, max((slower-1)*a.seconds, ride*s.row)) // what is not wanted in time is lost
		return
	}
	a.since++
	row := max(t-a.seconds, t*1e-3) / float64(riding)
	if s.rode == 0 {
		s.row = row
	}
	s.row, s.rode = towards(s.row, row), riding
	s.account -= min(row, 2*s.row) * float64(riding) // a step that was slow for reasons of its own is not the prompt's
}

// towards moves an estimate towards a measurement, and not far at once.
func towards(estimate, measured float64) float64 {
	return estimate + (min(max(measured, estimate/2), 2*estimate)-estimate)/4
}
