package memra

import (
	"context"
	"fmt"

	"memra/compute"
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

// feed computes tokens, in steps, and calls each with the logits of those from index `from` on, in order. Rows are valid
// during the call only.
func (s *sequence) feed(ctx context.Context, tokens []int32, from int, each func(i int, row []float32) error) error {
	for first := 0; first < len(tokens); {
		n := min(s.m.step, len(tokens)-first, max(0, from-first)+s.m.logitRows())
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.compute(tokens[first:first+n], max(0, from-first), func(i int, row []float32) error { return each(first+i, row) }); err != nil {
			return err
		}
		first += n
	}
	return nil
}

// compute runs one step. Rows below `from` do not ask for logits.
func (s *sequence) compute(tokens []int32, from int, each func(i int, row []float32) error) error {
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
		b.Add(t, len(s.tokens)+i, 0, i >= from)
	}
	if err := b.Check(m.model.Vocab, 1); err != nil {
		return err
	}
	if err := s.state.Extend(len(tokens)); err != nil {
		return err
	}
	rows, err := m.run(&b, s.state)
	if err != nil {
		return err
	}
	s.tokens = append(s.tokens, tokens...)
	for i, row := range rows {
		if err := each(from+i, row); err != nil {
			return err
		}
	}
	return nil
}

// together computes one token of each sequence, all in one step, and asks for their logits.
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
	_, err := m.run(&b, states...)
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
