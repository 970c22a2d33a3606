package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"memra/compute"
	"memra/sample"
	"memra/state"
)

// scheduler decides what the next step computes. It is a state machine without goroutine, clock or channel: add and cancel between
// steps, plan a step, compute it, apply what came of it.
type scheduler struct {
	pool     *state.Pool
	prefixes *state.Tree // nil: none
	limits   limits
	share    share
	drafts   speculation

	running []*sequence // hold a state; oldest first
	waiting []*sequence // oldest first
	tenants map[string]*tenant
	notes   []note  // for the answers, in order; the engine delivers them
	steps   [2]step // the last that were planned, in turn: one runs while the next is made

	last int  // the youngest sequence's id
	turn int  // the number of the step
	full bool // those that wait have to wait until somebody leaves
}

// limits are what a step and the device have room for.
type limits struct {
	rows      int // of a step
	asking    int // of them
	sequences int // that run at once
}

// note is news of an answer.
type note struct {
	answer *Answer
	index  int
	began  *Usage // it has begun to be computed, and this is known
	event  Event  // unless began or err
	err    error
}

// tenant is those whose requests take turns with others'.
type tenant struct {
	sequences int // that run or wait
	served    int // rows, as if it had been there from the start
}

// step is rows of sequences, and what some of them ask.
type step struct {
	batch  compute.Batch
	draws  []sample.Draw
	states []*state.Sequence // slot i of the batch
	chunks []chunk

	rows     int  // of sequences; more are padding
	decoding int  // of them, of sequences that decode; the others are of prompts
	hurried  bool // somebody waits for one of those

	took   time.Duration // on the device
	beside time.Duration // and before and after on the host, which has more to do for more rows
}

// chunk is the rows of one sequence in a step: so many from position first on, of which the last ones ask.
type chunk struct {
	sequence     *sequence
	first, rows  int
	asking, from int // from: of the step's draws
}

// reset empties the step, and keeps its memory for the next.
func (st *step) reset() {
	b := &st.batch
	*b = compute.Batch{Tokens: b.Tokens[:0], Positions: b.Positions[:0], Slots: b.Slots[:0], Logits: b.Logits[:0]}
	clear(st.draws)
	clear(st.states)
	clear(st.chunks)
	*st = step{batch: *b, draws: st.draws[:0], states: st.states[:0], chunks: st.chunks[:0]}
}

func newScheduler(pool *state.Pool, prefixes *state.Tree, l limits) *scheduler {
	l.rows = min(l.rows, pool.Step())
	return &scheduler{pool: pool, prefixes: prefixes, limits: l, tenants: map[string]*tenant{}, share: share{alone: map[int]*alone{}}}
}

// add takes a request in.
func (s *scheduler) add(a *Answer) {
	for _, q := range a.sequences {
		s.last++
		q.id = s.last
		s.waiting = append(s.waiting, q)
	}
	s.enter(a.request.Tenant, len(a.sequences))
}

// cancel ends a request that is of no more use. What it has computed is as good as another's.
func (s *scheduler) cancel(a *Answer, cause error) {
	for _, q := range s.running {
		if q.answer == a {
			s.keep(q)
		}
	}
	s.fail(a, cause)
}

// fail ends a request with an error. A request that is over stays as it is.
func (s *scheduler) fail(a *Answer, err error) {
	of := func(q *sequence) bool { return q.answer == a }
	if !slices.ContainsFunc(s.running, of) && !slices.ContainsFunc(s.waiting, of) {
		return
	}
	for _, q := range slices.Concat(s.running, s.waiting) {
		if of(q) {
			s.leave(q)
		}
	}
	s.notes = append(s.notes, note{answer: a, err: err})
}

// failAll ends every request.
func (s *scheduler) failAll(err error) {
	for len(s.running)+len(s.waiting) > 0 {
		s.fail(slices.Concat(s.running, s.waiting)[0].answer, err)
	}
}

// plan prepares the next step; nil: there is nothing to compute.
func (s *scheduler) plan() *step {
	s.turn++
	for s.admit(); len(s.running) > 0; {
		s.apportion()
		s.reserve()
		order := slices.DeleteFunc(slices.Clone(s.running), func(q *sequence) bool { return q.rows == 0 })
		if len(order) > 0 {
			slices.SortStableFunc(order, func(a, b *sequence) int { return cmp.Compare(a.rows, b.rows) }) // decode rows first
			return s.pack(order)
		}
		if len(s.running) > 0 { // all rows were the youngest's, who lacks pages: the others go on
			s.preempt(s.running[len(s.running)-1])
		}
		if len(s.running) == 0 {
			s.admit()
		}
	}
	return nil
}

// apportion chooses how many rows of each running sequence the step computes: what decodes, whole, then prompts, as many as do not
// hold those up. Half of the prompts' rows are the oldest's, which therefore ends; the rest goes to those that have least to go.
func (s *scheduler) apportion() {
	rows, asking := s.limits.rows, s.limits.asking
	var decoding, prompts []*sequence
	for _, q := range s.running {
		q.rows = 0
		if q.decodes() {
			decoding = append(decoding, q)
		} else {
			prompts = append(prompts, q)
		}
	}
	if i := slices.IndexFunc(s.running, func(q *sequence) bool { return q.suspect }); i >= 0 {
		s.portion(s.running[i], rows, &rows, &asking)
		return
	}
	slices.SortStableFunc(decoding, func(a, b *sequence) int { return cmp.Compare(a.turn, b.turn) }) // where not all have room, they take turns
	for _, q := range decoding {
		q.drafts = q.drafts[:max(0, min(len(q.drafts), q.request.Limit-q.done.Generated-1, rows-1, asking-1))]
		s.portion(q, q.missing(), &rows, &asking)
	}
	if len(prompts) == 0 {
		return
	}
	left := rows
	if slices.ContainsFunc(decoding, func(q *sequence) bool { return !q.request.Patient }) {
		missing := 0
		for _, q := range prompts {
			missing += q.missing()
		}
		left = min(left, s.share.beside(s.limits.rows-rows, missing))
	}
	rest := left / 2
	left -= rest
	s.portion(prompts[0], left, &left, &asking)
	left += rest
	slices.SortStableFunc(prompts, func(a, b *sequence) int { return cmp.Compare(a.missing(), b.missing()) })
	for _, q := range prompts {
		s.portion(q, q.rows+left, &left, &asking)
	}
}

// portion gives a sequence up to n rows, of what a step has left.
func (s *scheduler) portion(q *sequence, n int, rows, asking *int) {
	*rows, *asking = *rows+q.rows, *asking+q.asking(q.rows)
	q.rows = s.cut(q, min(n, *rows, q.missing(), max(0, q.answered-q.state.Len())+*asking))
	*rows, *asking = *rows-q.rows, *asking-q.asking(q.rows)
}

// cut ends a chunk where something is wanted of the state that it leaves: before the last token of a prompt from which others fork, and
// where the prefixes lack it.
func (s *scheduler) cut(q *sequence, n int) int {
	if learn := q.learn - q.state.Len(); learn > 0 {
		n = min(n, learn)
	}
	if fork := q.given() - 1 - q.state.Len(); q.request.N > 1 && fork > 0 {
		n = min(n, fork)
	}
	return n
}

// pack makes a step of the rows that sequences have been given room for.
func (s *scheduler) pack(order []*sequence) *step {
	st := &s.steps[s.turn%len(s.steps)]
	st.reset()
	for slot, q := range order {
		c := chunk{sequence: q, first: q.state.Len() - q.rows, rows: q.rows, from: len(st.draws)}
		for i := c.first; i < c.first+c.rows; i++ {
			asks := i >= q.answered
			st.batch.Add(q.token(i), i, slot, asks)
			if asks {
				st.draws = append(st.draws, q.draw(i))
			}
		}
		q.history.Truncate(len(q.tokens))
		c.asking = len(st.draws) - c.from
		st.states, st.chunks = append(st.states, q.state), append(st.chunks, c)
		if c.first >= len(q.tokens)-1 {
			st.decoding += c.rows
			st.hurried = st.hurried || !q.request.Patient
		}
		st.rows += c.rows
	}
	return st
}

// pad brings the step to a shape that the device likes, unless it exceeds the limits.
func (st *step) pad(d compute.Device, l limits) {
	st.batch.Pad(min(d.Padded(st.rows), l.rows), min(d.Padded(len(st.draws)), l.asking))
	for len(st.draws) < len(st.batch.Logits) {
		st.draws = append(st.draws, sample.Draw{})
	}
}

// apply takes the answers to a step's draws, or its error.
func (s *scheduler) apply(st *step, picks []sample.Pick, err error) {
	if err != nil {
		s.undo(st, err)
		return
	}
	rows := st.rows
	if st.hurried || st.decoding == rows { // else the prompts had no share to keep to
		s.share.learn(st.decoding, rows-st.decoding, st.took)
	}
	if st.decoding == rows && s.drafts.Speculator != nil {
		s.drafts.Took(rows, st.took+st.beside)
	}
	for _, c := range st.chunks {
		if c.sequence.state != nil { // nil: another answer to its request has failed
			s.hear(c, picks[c.from:c.from+c.asking])
		}
	}
}

// hear takes the answers to one sequence's draws.
func (s *scheduler) hear(c chunk, picks []sample.Pick) {
	q := c.sequence
	q.suspect, q.turn = false, s.turn
	s.tenants[q.request.Tenant].served += c.rows
	drafted, accepted := len(q.drafts), 0
	for _, p := range picks {
		if p.Err != nil {
			s.fail(q.answer, fmt.Errorf("engine: after token %d: %w", q.answered, p.Err))
			return
		}
		e, on := q.take(p)
		s.notes = append(s.notes, note{answer: q.answer, index: q.index, event: e})
		if !on {
			break
		}
		accepted++
	}
	q.drafts = nil
	s.drafts.verified(q, drafted, accepted)
	if n := len(q.tokens) - 1; !(q.ahead && !q.over()) && q.state.Len() > n && q.state.Truncate(n) != nil { // drafts that were not drawn, or what comes after the end
		q.state.Free()
	}
	s.offer(q)
	if !q.over() {
		return
	}
	if q.done.Reason == "" {
		q.done.Reason = ScoreOnly
	}
	s.keep(q)
	s.leave(q)
	s.notes = append(s.notes, note{answer: q.answer, index: q.index, event: Event{Index: q.index, Done: &q.done}})
}

// undo takes the rows of a failed step back. A step that was too large is cut into smaller ones. Otherwise each of its sequences is
// computed alone, until it is known whose rows fail: what fails a second time, alone, has failed.
func (s *scheduler) undo(st *step, err error) {
	st.takeBack()
	if rows := st.rows; errors.Is(err, compute.ErrMemory) && rows > 1 {
		s.limits.rows = rows / 2
		return
	}
	if q := st.chunks[0].sequence; q.suspect { // they are alone
		s.fail(q.answer, err)
		return
	}
	for _, c := range st.chunks {
		c.sequence.suspect = true
	}
}

// takeBack leaves the sequences of a step as they were before it was planned.
func (st *step) takeBack() {
	for _, c := range st.chunks {
		q := c.sequence
		if q.drafts, q.ahead = nil, false; q.state != nil && q.state.Truncate(c.first) != nil {
			q.state.Free()
		}
	}
}
