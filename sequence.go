package memra

import (
	"context"

	"memra/compute"
	"memra/state"
)

// sequence is tokens and the state that they left on the device, apart from the engine's: to measure steps, and to see whole rows of
// logits. All that is done with it is done between the engine's steps (machine.between), and it is freed before those go on.
type sequence struct {
	m      *machine
	state  *state.Sequence
	tokens []int32
}

func (m *machine) newSequence() *sequence { return &sequence{m: m, state: m.pool.NewSequence()} }

// feed computes tokens, in steps whose last rows ask for logits from token `from` on; run computes each, and hears the first that asks.
func (s *sequence) feed(ctx context.Context, tokens []int32, from int, run func(b *compute.Batch, first int) error) error {
	for first := 0; first < len(tokens); {
		n := min(s.m.step, len(tokens)-first, max(0, from-first)+s.m.logitRows())
		if err := ctx.Err(); err != nil {
			return err
		}
		var b compute.Batch
		if err := s.add(&b, 0, tokens[first:first+n], max(0, first+n-max(from, first))); err != nil {
			return err
		}
		if err := run(&b, max(from, first)); err != nil {
			return err
		}
		first += n
	}
	return nil
}

// add puts tokens into a step as the rows of a slot, the last of which, so many, ask for logits.
func (s *sequence) add(b *compute.Batch, slot int, tokens []int32, asking int) error {
	for i, t := range tokens {
		b.Add(t, len(s.tokens)+i, slot, i >= len(tokens)-asking)
	}
	if err := s.state.Extend(len(tokens)); err != nil {
		return err
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// cut forgets all tokens but the first n, or all where the state no longer has what the next row would see.
func (s *sequence) cut(n int) {
	if n = min(n, len(s.tokens)); s.state.Truncate(n) != nil {
		s.state.Free()
		n = 0
	}
	s.tokens = s.tokens[:n]
}
