package spec

import (
	"errors"

	"memra/compute"
	"memra/state"
)

// Both guesses as one of two drafters does, whichever promises more: with a model of some kind, or with what the text itself says.
type Both struct {
	Drafter
	text *Lookup
}

// NewBoth joins lookup to a drafter that takes time.
func NewBoth(paid Drafter, text *Lookup) *Both { return &Both{paid, text} }

// Kind names both: "mtp+lookup".
func (b *Both) Kind() string { return b.Drafter.Kind() + "+" + b.text.Kind() }

// bothMemory is what the two remember.
type bothMemory struct{ paid, text Memory }

func (b *Both) Begin() Memory { return &bothMemory{b.Drafter.Begin(), b.text.Begin()} }

func (m *bothMemory) Sight(tokens []int32) (paid, free int) {
	paid, _ = m.paid.Sight(tokens)
	_, free = m.text.Sight(tokens)
	return paid, free
}

func (m *bothMemory) Fork() Memory { return &bothMemory{m.paid.Fork(), m.text.Fork()} }

func (m *bothMemory) Free() {
	m.paid.Free()
	m.text.Free()
}

func (b *Both) Forward(batch *compute.Batch, s *state.View, shares []Share) func(compute.Ops) compute.Tensor {
	paid := make([]Share, len(shares))
	for i, sh := range shares {
		paid[i] = sh
		if m, ok := sh.Memory.(*bothMemory); ok {
			paid[i].Memory = m.paid
		}
	}
	return b.Drafter.Forward(batch, s, paid)
}

func (b *Both) Draft(asks []*Ask) error {
	var paid, free []*Ask
	parts := make([]Ask, len(asks))
	for i, a := range asks {
		m, part := a.memory().(*bothMemory), &parts[i]
		*part = *a
		if a.Free {
			part.Sequence = &Sequence{memory: m.text}
			free = append(free, part)
		} else {
			part.Sequence = &Sequence{memory: m.paid}
			paid = append(paid, part)
		}
	}
	err := errors.Join(b.text.Draft(free), b.Drafter.Draft(paid))
	for i, a := range asks {
		a.Drafts = parts[i].Drafts
	}
	return err
}
