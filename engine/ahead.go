package engine

import "memra/compute"

// While a step runs, the next one is made and begun, where it is known what that computes whatever the first one says: one more row of
// each sequence that decodes. Their tokens are compute.Drawn; everything else of a row is known. So the device has no gap between two steps. A
// sequence that turns out to be over has computed a row too many, which nobody sees.

// ahead is the step after one of which nothing is known yet; nil: it has to be known.
func (s *scheduler) ahead(of *step) *step {
	if of.decoding != of.rows || len(s.waiting) > 0 && !s.full {
		return nil
	}
	var order []*sequence
	var drawn []int32 // their tokens
	known := 0
	for _, c := range of.chunks {
		q := c.sequence
		switch {
		case q.left:
			continue
		case !c.foreseen():
			return nil
		}
		known++
		if q.done.Generated+1 < q.request.Limit {
			order, drawn = append(order, q), append(drawn, compute.Drawn(c.from))
		} else if len(s.waiting) > 0 { // it ends, and somebody has its place in the next step
			return nil
		}
	}
	if known < len(s.running) || len(order) == 0 || !s.drafts.quiet(order) {
		return nil
	}
	for i, q := range order {
		s.offer(q) // before it moves on
		if q.state.Extend(1) != nil {
			for _, q := range order[:i] {
				if q.state.Truncate(len(q.tokens)) != nil {
					q.state.Free()
				}
			}
			return nil
		}
	}
	for i, q := range order {
		q.rows, q.ahead, q.drafts = 1, true, drawn[i:i+1]
	}
	s.turn++
	st := s.pack(order)
	for _, q := range order {
		q.drafts = nil
	}
	return st
}

// foreseen reports whether a chunk is one row of a sequence that decodes, of which is known how the token after the next is drawn: not by
// what the tokens before it are, or by somebody who chooses.
func (c *chunk) foreseen() bool {
	q := c.sequence
	return q.state != nil && c.rows == 1 && !q.suspect && c.first == len(q.tokens)-1 && q.request.Limit > 0 && !q.request.Draw.LooksBack() &&
		(q.request.First == nil || c.first >= q.given())
}
