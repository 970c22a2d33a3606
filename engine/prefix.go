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
	st, found := s.prefixes.Match(q.request.Tenant, q.silent())
	q.learn = found.Cut
	return st, found.String()
}

// silent is the tokens whose rows have nothing to say.
func (q *sequence) silent() []int32 { return q.tokens[:max(0, min(q.wanted()-1, q.answered))] }

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

// take passes a request on to the scheduler, with what the disk has of its prefix, which another goroutine reads while steps go on.
func (e *Engine) take(a *Answer) {
	var f *state.Fetch
	if tree := e.config.Prefixes; tree != nil {
		f = tree.Fetch(a.request.Tenant, a.sequences[0].silent())
	}
	if f == nil {
		e.scheduler.add(a)
		return
	}
	e.fetching[a] = true
	e.readers.Go(func() {
		f.Read()
		e.post(func() {
			if !e.fetching[a] { // cancelled
				return
			}
			delete(e.fetching, a)
			e.config.Prefixes.Restore(f) // a device that fails does so at its next step, too, which says so
			e.scheduler.add(a)
		})
	})
}

// drop cancels a request, wherever it is.
func (e *Engine) drop(a *Answer, cause error) {
	if e.fetching[a] {
		delete(e.fetching, a)
		a.fail(cause)
		return
	}
	e.scheduler.cancel(a, cause)
}

// end ends every request, and leaves what they have computed where the next process finds it.
func (e *Engine) end() {
	for a := range e.fetching {
		e.drop(a, ErrClosed)
	}
	for _, q := range e.scheduler.running {
		e.scheduler.keep(q)
	}
	e.scheduler.failAll(ErrClosed)
	if e.config.Prefixes != nil {
		e.config.Prefixes.Flush()
	}
}
