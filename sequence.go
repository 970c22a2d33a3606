package memra

import (
	"context"
	"fmt"

	"memra/compute"
	"memra/sample"
	"memra/state"
)

// sequence is tokens and the state that they left on the device.
type sequence struct {
	m      *machine
	state  *state.Sequence
	tokens []int32
}

// release gives the sequence back.
func (s *sequence) release() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.state.Free()
	<-s.m.slots
}

// feed computes tokens, in steps, asks for the draws of those from index `from` on (whose positions it knows), and calls each with
// the answers, in order.
func (s *sequence) feed(ctx context.Context, tokens []int32, from int, draw func(i int) sample.Draw, each func(i int, p sample.Pick) error) error {
	for first := 0; first < len(tokens); {
		n := min(s.m.step, len(tokens)-first, max(0, from-first)+s.m.logitRows())
		if err := ctx.Err(); err != nil {
			return err
		}
		var draws []sample.Draw
		from := max(from, first)
		for i := from; i < first+n; i++ {
			draws = append(draws, draw(i))
		}
		picks, err := s.compute(tokens[first:first+n], draws)
		if err != nil {
			return err
		}
		for i, p := range picks {
			if err := each(from+i, p); err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

// compute runs one step, and draws from its last rows.
func (s *sequence) compute(tokens []int32, draws []sample.Draw) (picks []sample.Pick, err error) {
	err = s.step(tokens, len(draws), func(b *compute.Batch) error {
		for i := range draws {
			draws[i].Position = len(s.tokens) + len(tokens) - len(draws) + i
		}
		picks, err = s.m.run(b, draws, s.state)
		return err
	})
	return picks, err
}

// step prepares one step whose last rows, so many, ask for logits, and has it run.
func (s *sequence) step(tokens []int32, asking int, run func(b *compute.Batch) error) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if n := len(s.tokens) + len(tokens); n > m.context {
		return fmt.Errorf("memra: %d tokens exceed the context of %d; shorten the prompt, ask for fewer tokens, or open the model with a larger context", n, m.context)
	}
	var b compute.Batch
	for i, t := range tokens {
		b.Add(t, len(s.tokens)+i, 0, i >= len(tokens)-asking)
	}
	if err := b.Check(m.model.Vocab, 1); err != nil {
		return err
	}
	if err := s.state.Extend(len(tokens)); err != nil {
		return err
	}
	if err := run(&b); err != nil {
		return err
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// together computes one token of each sequence, all in one step, and picks what follows each.
func (m *machine) together(sequences []*sequence, tokens []int32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	var b compute.Batch
	var states []*state.Sequence
	for i, s := range sequences {
		b.Add(tokens[i], len(s.tokens), i, true)
		if err := s.state.Extend(1); err != nil {
			return err
		}
		s.tokens = append(s.tokens, tokens[i])
		states = append(states, s.state)
	}
	_, err := m.run(&b, make([]sample.Draw, len(tokens)), states...)
	return err
}

// cut forgets all tokens but the first n, or fewer if the sequence has no more. It reports false, and changes nothing, if the
// state no longer has what the next row would see.
func (s *sequence) cut(n int) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if n = min(n, len(s.tokens)); n == 0 {
		s.state.Free()
	} else if err := s.state.Truncate(n); err != nil {
		return false
	}
	s.tokens = s.tokens[:n]
	return true
}

// rewind forgets what follows the longest common prefix with tokens, short of its last, whose logits are wanted again. It
// returns what is left to feed.
func (s *sequence) rewind(tokens []int32) []int32 {
	same := 0
	for same < min(len(s.tokens), len(tokens)-1) && s.tokens[same] == tokens[same] {
		same++
	}
	if !s.cut(same) { // a windowed layer has forgotten: begin again
		s.cut(0)
	}
	return tokens[len(s.tokens):]
}
