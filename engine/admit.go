package engine

import (
	"cmp"
	"errors"
	"slices"

	"memra/compute"
	"memra/state"
)

// admit lets sequences run that wait, as many as there is room for.
func (s *scheduler) admit() {
	for len(s.running) < s.limits.sequences {
		q := s.next()
		if s.full = q != nil && !s.start(q); q == nil || s.full {
			return
		}
	}
	s.full = true
}

// next is whose turn it is to run: of the tenant that has been served least, the oldest. It waits for others rather than be passed by
// smaller ones.
func (s *scheduler) next() (next *sequence) {
	for _, q := range s.waiting {
		if l := q.lead; l != nil {
			before := q.given() - 1
			switch {
			case l.done.Generated > 0 || l.left:
				q.lead = nil // too late to fork
			case l.state == nil || l.state.Len() < before:
				continue
			}
		}
		if next == nil || s.tenants[q.request.Tenant].served < s.tenants[next.request.Tenant].served {
			next = q
		}
	}
	return next
}

// start gives a sequence a state, with all that is computed of its tokens, unless that and what runs would soon need more pages than
// there are. A request that runs alone has room, or Submit had refused it.
func (s *scheduler) start(q *sequence) bool {
	need := s.pool.Takes(0)
	for _, r := range s.running {
		need.Add(s.growth(r, r.state))
	}
	if !need.Within(s.pool.Free()) { // what it needs itself is not worth finding out
		return false
	}
	var st *state.Sequence
	var miss string
	if q.lead != nil {
		st = q.lead.state.Fork()
	} else {
		st, miss = s.begin(q)
	}
	need.Add(s.growth(q, st))
	if len(s.running) > 0 && !need.Within(s.pool.Free()) {
		st.Free()
		return false
	}
	if !q.begun {
		q.begun, q.done.Cached, q.done.Miss = true, st.Len(), miss
		if q.lead != nil { // what it forks off has been computed for it
			q.done.Cached = q.lead.done.Cached
		}
		usage := q.done.Usage
		s.notes = append(s.notes, note{answer: q.answer, index: q.index, began: &usage})
	}
	s.drafts.begin(q)
	q.state, q.lead = st, nil
	s.waiting = remove(s.waiting, q)
	s.running = insert(s.running, q)
	return true
}

// growth is the pages that a sequence needs for all its tokens, and for a page of those that follow.
func (s *scheduler) growth(q *sequence, st *state.Sequence) state.Pages {
	n := s.pool.Takes(min(len(q.tokens)+compute.Page, q.request.length()))
	n.Sub(st.Holds())
	return n
}

// reserve makes room for the rows of the step, oldest sequences first. What lacks pages, those of the prefixes included, gets those of
// the youngest that runs, which will recompute; the youngest itself waits for others to end.
func (s *scheduler) reserve() {
	for _, q := range slices.Clone(s.running) {
		for q.rows > 0 { // as long as it runs
			err := q.state.Extend(q.rows)
			if err == nil {
				break
			}
			switch youngest := s.running[len(s.running)-1]; {
			case !errors.Is(err, state.ErrFull):
				s.fail(q.answer, err)
			case len(q.drafts) > 0:
				q.rows, q.drafts = q.rows-len(q.drafts), nil
			case youngest != q:
				s.preempt(youngest)
			case len(s.running) == 1:
				s.fail(q.answer, err) // somebody else holds pages
			default:
				q.rows = 0
			}
		}
	}
}

// preempt takes a sequence's pages. Its tokens stay, and are computed again when there is room.
func (s *scheduler) preempt(q *sequence) {
	s.keep(q)
	s.stop(q)
	q.done.Preempted++
	s.waiting = insert(s.waiting, q)
}

// stop takes a sequence out of those that run, with its pages.
func (s *scheduler) stop(q *sequence) {
	q.state.Free()
	q.state, q.drafts, q.rows = nil, nil, 0
	s.running = remove(s.running, q)
}

// leave takes a sequence out for good.
func (s *scheduler) leave(q *sequence) {
	s.full = false
	if q.state != nil {
		s.stop(q)
	}
	s.waiting = remove(s.waiting, q)
	if q.guesses != nil {
		q.guesses.Free()
	}
	q.left = true
	name := q.request.Tenant
	if t := s.tenants[name]; t.sequences > 1 {
		t.sequences--
	} else {
		delete(s.tenants, name)
	}
}

// enter counts a tenant's sequences in. One that was away has no claim on what others had meanwhile.
func (s *scheduler) enter(name string, sequences int) {
	t := s.tenants[name]
	if t == nil {
		t = new(tenant)
		first := true
		for _, other := range s.tenants {
			if first || other.served < t.served {
				t.served, first = other.served, false
			}
		}
		s.tenants[name] = t
	}
	t.sequences += sequences
}

// insert puts a sequence where its age belongs.
func insert(list []*sequence, q *sequence) []*sequence {
	i, _ := slices.BinarySearchFunc(list, q, byAge)
	return slices.Insert(list, i, q)
}

func remove(list []*sequence, q *sequence) []*sequence {
	if i, found := slices.BinarySearchFunc(list, q, byAge); found {
		list = slices.Delete(list, i, i+1)
	}
	return list
}

func byAge(a, b *sequence) int { return cmp.Compare(a.id, b.id) }
