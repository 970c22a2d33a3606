package memra

import (
	"context"
	"fmt"

	"memra/compute"
	"memra/state"
)

// sequence is tokens and the state that they left on the device.
type sequence struct {
	m      *Model
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

// logitBytes bounds the logits of one step.
const logitBytes = 32 << 20

// feed computes tokens, in steps, and calls each with the logits of those from index `from` on, in order. Rows are valid
// during the call only.
func (s *sequence) feed(ctx context.Context, tokens []int32, from int, each func(i int, row []float32) error) error {
	for first := 0; first < len(tokens); {
		n := min(s.m.step, len(tokens)-first)
		if rows := max(1, logitBytes/4/s.m.model.Vocab); first+n > from {
			n = min(n, max(rows, from-first))
		}
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
	view := m.pool.View(s.state)
	rows, err := m.device.Run(func(ops compute.Ops) compute.Tensor { return m.model.Forward(ops, &b, view) })
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

// rewind forgets what follows the longest common prefix with tokens, short of its last, whose logits are wanted again. It
// returns what is left to feed.
func (s *sequence) rewind(tokens []int32) []int32 {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	same := 0
	for same < min(len(s.tokens), len(tokens)-1) && s.tokens[same] == tokens[same] {
		same++
	}
	if err := s.state.Truncate(same); err != nil { // a windowed layer has forgotten: begin again
		s.state.Free()
		same = 0
	}
	s.tokens = s.tokens[:same]
	return tokens[same:]
}
