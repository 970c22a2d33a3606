package engine

import (
	"slices"
	"time"

	"memra/compute"
	"memra/model"
	"memra/sample"
	"memra/spec"
	"memra/state"
)

// speculation is drafts as the scheduler makes use of them: guesses of what follows decoding sequences, each a row more of the next step.
type speculation struct{ *spec.Speculator } // nil: nothing is drafted

// begin gives a sequence that is to be drafted what is remembered of it: a fork has what its lead has.
func (s speculation) begin(q *sequence) {
	if s.Speculator == nil || q.request.Limit < 2 || q.request.Drafts < 0 || q.guesses != nil {
		return
	}
	if q.lead != nil && q.lead.guesses != nil {
		q.guesses = q.lead.guesses.Fork()
	} else {
		q.guesses = s.Begin()
	}
}

// draft has guessed what follows the sequences that decode.
func (s speculation) draft(running []*sequence) {
	if s.Speculator == nil {
		return
	}
	asks, of, decoding := s.asks(slices.DeleteFunc(slices.Clone(running), func(q *sequence) bool { return !q.decodes() || q.suspect }))
	err := s.Draft(decoding, asks)
	for i, a := range asks {
		q := of[i]
		q.history.Truncate(len(q.tokens))
		if err == nil { // else nothing is drafted, and the device's next step tells what is wrong
			q.drafts = a.Drafts
		}
	}
}

// await has guesses known that the device knew before the host, and says how long that took. They are where q.drafts is.
func (s speculation) await() (waited time.Duration) {
	if s.Speculator != nil {
		waited, _ = s.Await() // what could not be guessed equals no token; and if the device has failed, its step says so
	}
	return waited
}

// quiet reports whether nothing would be guessed for sequences that decode, as far as that can be said before their next tokens are known.
func (s speculation) quiet(decoding []*sequence) bool {
	if s.Speculator == nil {
		return true
	}
	asks, _, n := s.asks(decoding)
	return s.Quiet(n, asks)
}

// asks is what may be guessed of which sequences, of so many that decode.
func (s speculation) asks(decoding []*sequence) (asks []*spec.Ask, of []*sequence, n int) {
	for _, q := range decoding {
		if q.guesses == nil || len(q.tokens) == q.given() && q.request.First != nil { // what is chosen cannot be guessed
			continue
		}
		most := q.request.Limit - q.done.Generated - 1
		if q.request.Drafts > 0 {
			most = min(most, q.request.Drafts)
		}
		asks, of = append(asks, &spec.Ask{Sequence: q.guesses, Tokens: q.tokens, Most: most, Draw: q.guess, Blind: !q.request.Draw.LooksBack()}), append(of, q)
	}
	return asks, of, len(decoding)
}

// guess is how the token after some drafts is drawn. It is asked for draft after draft.
func (q *sequence) guess(drafts []int32) sample.Draw {
	q.history.Append(drafts[q.history.Len()-len(q.tokens):]...)
	return q.history.Draw()
}

// forward is the model's forward for a step, with what the drafter takes from it.
func (s speculation) forward(m *model.Model, st *step, v *state.View) func(compute.Ops) compute.Tensor {
	if s.Speculator == nil {
		return func(ops compute.Ops) compute.Tensor { return m.Forward(ops, &st.batch, v) }
	}
	shares := make([]spec.Share, len(st.chunks))
	row := 0
	for i, c := range st.chunks {
		if q := c.sequence; q.guesses != nil {
			tokens := q.tokens
			if c.first == len(tokens) { // which the device knows
				tokens = append(tokens, st.batch.Tokens[row])
			}
			shares[i] = q.guesses.Share(tokens, row, c.first, c.rows)
		}
		row += c.rows
	}
	return s.Forward(&st.batch, v, shares)
}

// verified hears what became of a sequence's drafts. That of the last, where the answer ends, nobody knows.
func (s speculation) verified(q *sequence, drafted, accepted int) {
	if drafted == 0 {
		return
	}
	if q.done.Reason != "" {
		drafted = accepted
	}
	q.done.Drafted, q.done.Accepted = q.done.Drafted+drafted, q.done.Accepted+accepted
	s.Verified(q.guesses, drafted, accepted)
}
