package engine

import "slices"

// End ends answer i of the request, of which no more is wanted: its last event says that it stopped. The others go on; Cancel ends all.
func (a *Answer) End(i int) {
	a.engine.post(func() { a.engine.scheduler.end(a.sequences[i]) })
}

// end ends a sequence as if it had drawn an end token. One that is over stays as it is.
func (s *scheduler) end(q *sequence) {
	switch {
	case slices.Contains(s.running, q):
		s.keep(q)
	case !slices.Contains(s.waiting, q):
		return
	}
	s.leave(q)
	q.done.Reason = Stop
	s.notes = append(s.notes, note{answer: q.answer, index: q.index, event: Event{Index: q.index, Done: &q.done}})
}
