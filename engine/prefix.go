package engine

import (
	"slices"

	"memra/state"
)

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

// take passes a request on to the scheduler, with what the disk has of its prefix.
func (e *Engine) take(a *Answer) {
	if e.fetch(a) == nil {
		e.scheduler.add(a)
		return
	}
	e.fetching = append(e.fetching, a)
	e.fetchNext()
}

// fetch is what the disk has, and memory has not, of a request's prefix. nil: nothing.
func (e *Engine) fetch(a *Answer) *state.Fetch {
	if e.config.Prefixes == nil {
		return nil
	}
	return e.config.Prefixes.Fetch(a.request.Tenant, a.sequences[0].silent())
}

// fetchNext has another goroutine read the prefix of the request that waits longest, piece by piece, while steps go on. One at a time:
// those that wait may want the same.
func (e *Engine) fetchNext() {
	for !e.reading && len(e.fetching) > 0 {
		a := e.fetching[0]
		f := e.fetch(a)
		if f == nil || e.left > 0 && f.Pages() >= e.left { // it is all here, or there is no room for more of it
			e.fetching, e.left = e.fetching[1:], 0
			e.scheduler.add(a)
			continue
		}
		e.reading, e.left = true, f.Pages()
		e.readers.Go(func() {
			f.Read()
			e.post(func() {
				e.reading = false
				e.config.Prefixes.Restore(f) // a device that fails does so at its next step, too, which says so
				e.fetchNext()
			})
		})
	}
}

// drop cancels a request, wherever it is.
func (e *Engine) drop(a *Answer, cause error) {
	i := slices.Index(e.fetching, a)
	if i < 0 {
		e.scheduler.cancel(a, cause)
		return
	}
	e.fetching = slices.Delete(e.fetching, i, i+1)
	if i == 0 {
		e.left = 0
	}
	a.fail(cause)
}

// end ends every request, and leaves what they have computed where the next process finds it.
func (e *Engine) end() {
	for len(e.fetching) > 0 {
		e.drop(e.fetching[0], ErrClosed)
	}
	for _, q := range e.scheduler.running {
		e.scheduler.keep(q)
	}
	e.scheduler.failAll(ErrClosed)
	if e.config.Prefixes != nil {
		e.config.Prefixes.Flush()
	}
}
