package spec

import (
	"math/bits"

	"memra/compute"
	"memra/model"
	"memra/state"
)

// Lookup guesses that what followed the sequence's last tokens before follows them again: prompt lookup. It takes nothing on the device,
// and is right where a text repeats itself or its prompt. The longest match counts, and of those the latest.
type Lookup struct{ model *model.Model }

// NewLookup guesses for a model's sequences.
func NewLookup(m *model.Model) *Lookup { return &Lookup{m} }

func (*Lookup) Kind() string          { return "lookup" }
func (*Lookup) Begin() Memory         { return new(index) }
func (*Lookup) Cost(_, _ int) float64 { return 0 }
func (*Lookup) Expected() float64     { return 0 }
func (*Lookup) Await() error          { return nil }
func (*Lookup) Close() error          { return nil }

func (l *Lookup) Forward(b *compute.Batch, s *state.View, _ []Share) func(compute.Ops) compute.Tensor {
	return func(ops compute.Ops) compute.Tensor { return l.model.Forward(ops, b, s) }
}

// Draft copies. Where a copy comes to the end of the text, it goes on in what has been copied.
func (*Lookup) Draft(asks []*Ask) error {
	for _, a := range asks {
		x := a.memory().(*index)
		place, _ := x.find()
		for i := range a.Depth {
			if at := place + i; at < len(x.tokens) {
				a.Drafts = append(a.Drafts, x.tokens[at])
			} else {
				a.Drafts = append(a.Drafts, a.Drafts[at-len(x.tokens)])
			}
		}
	}
	return nil
}

// Sight tells matches apart by their length: 2, 3, then up to 7, 15, 31, and 32.
func (x *index) Sight(tokens []int32) (paid, free int) {
	for _, t := range tokens[len(x.tokens):] {
		x.append(t)
	}
	_, length := x.find()
	if length == 0 {
		return None, None
	}
	if length < 4 {
		return None, length - 2
	}
	return None, bits.Len(uint(length)) - 1
}

// Fork reads the tokens anew when it hears of them.
func (x *index) Fork() Memory { return new(index) }

// Free forgets the tokens.
func (x *index) Free() { *x = index{} }
