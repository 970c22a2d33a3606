package engine

import "memra/state"

// Where the scheduler meets the tree of prefixes, state.Tree; nil: there is none. Sequences begin with what it has of their tokens, and
// offer it theirs after every step and when they end. Its pages count as free: they go before anybody is preempted.

// begin is a state that has computed as many of a sequence's tokens as the tree has, but no row that has something to say; and why not
// more.
func (s *scheduler) begin(q *sequence) (st *state.Sequence, miss string) {
	if s.prefixes == nil {
		return s.pool.NewSequence(), "the prefix cache is off"
	}
	st, found := s.prefixes.Match(q.request.Tenant, q.tokens[:max(0, min(q.wanted()-1, q.answered))])
	q.learn = found.Cut
	return st, found.String()
}

// offer lets others begin with what a sequence has computed.
func (s *scheduler) offer(q *sequence) {
	if s.prefixes != nil {
		s.prefixes.Insert(q.state, q.tokens)
	}
}

// keep does so with a sequence that gives up its state, which is empty afterwards.
func (s *scheduler) keep(q *sequence) {
	if s.prefixes != nil {
		s.prefixes.Retire(q.state, q.tokens)
	}
}
