package engine

import (
	"memra/sample"
	"memra/spec"
	"memra/state"
)

// sequence is tokens, given and generated alike, and a state that has computed the first of them. What it lacks is rows: a prompt's
// chunk, the one row of a decoding sequence, and what a preempted one had before are all the rows that are missing.
type sequence struct {
	id      int // in order of arrival: a larger one is younger
	answer  *Answer
	request *Request
	index   int       // which of the request's answers
	lead    *sequence // computes the prompt that this one forks off; nil: it computes all by itself

	tokens   []int32
	history  *sample.History // of tokens, and while a step is packed of drafts
	drafts   []int32         // guesses of what follows tokens; they live for one step
	guesses  *spec.Sequence  // what they are made of; nil: it is not drafted
	state    *state.Sequence // nil: it waits
	answered int             // rows below it have said what was asked of them
	ends     map[int32]bool
	learn    int // where the prefixes would like a chunk to end

	rows    int  // of the step that is planned
	ahead   bool // a step has been begun that computes the token which is not known yet
	turn    int  // of the last step that computed a row of it
	begun   bool // has been told
	left    bool // for good
	suspect bool // was in a step that failed, and is computed alone until it is known who was to blame

	done Done // as far as it is known
}

// given is the length of the prompt.
func (q *sequence) given() int { return len(q.request.Tokens) }

// wanted is how many rows are wanted in all: of a request that is scored only, the last token's says nothing.
func (q *sequence) wanted() int {
	if q.request.Limit == 0 {
		return q.given() - 1
	}
	return len(q.tokens) + len(q.drafts)
}

// missing is how many of them are not computed.
func (q *sequence) missing() int { return q.wanted() - q.state.Len() }

// decodes reports whether all that is missing is the last token, and drafts after it.
func (q *sequence) decodes() bool {
	return q.request.Limit > 0 && q.state.Len() == len(q.tokens)-1
}

// asking is how many of n missing rows ask.
func (q *sequence) asking(n int) int { return max(0, q.state.Len()+n-max(q.state.Len(), q.answered)) }

// draw is what row i asks: what it says of the next token of the prompt, or for the token that follows. A row of a draft asks what it
// would ask if the draft were one of the tokens. Rows are asked in ascending order.
func (q *sequence) draw(i int) sample.Draw {
	if i+1 < q.given() {
		return sample.Draw{Position: i, Given: true, Token: q.tokens[i+1], LogProb: true, Top: q.request.Score.Top}
	}
	if i >= len(q.tokens) {
		q.history.Append(q.token(i))
	}
	d, ask := q.history.Draw(), q.request.Draw
	d.LogProb, d.Top, d.Filtered = ask.LogProb, ask.Top, ask.Filtered
	if q.request.First != nil && i+1 == q.given() {
		return q.request.First.Ask(d)
	}
	return d
}

// token is token i, of those that are drafted too.
func (q *sequence) token(i int) int32 {
	if i < len(q.tokens) {
		return q.tokens[i]
	}
	return q.drafts[i-len(q.tokens)]
}

// take hears the answer of row `answered`. It returns what is to be told, and whether the rows after it are of use: not where a draft
// is not what was drawn, nor after the end.
func (q *sequence) take(p sample.Pick) (Event, bool) {
	i := q.answered
	q.answered++
	if i+1 < q.given() {
		return Event{Index: q.index, Scored: true, Token: p.Token, LogProb: p.LogProb, Top: p.Top}, true
	}
	if f := q.request.First; f != nil && i+1 == q.given() {
		p = f.Choose(p)
	}
	q.tokens = append(q.tokens, p.Token)
	q.history.Append(p.Token)
	e := Event{Index: q.index, Token: p.Token, LogProb: p.LogProb, Top: p.Top}
	q.done.Generated++
	switch {
	case q.ends[p.Token]:
		q.done.Reason = Stop
	case q.done.Generated == q.request.Limit:
		q.done.Reason = Length
	}
	if len(q.drafts) == 0 || q.drafts[0] != p.Token || q.done.Reason != "" {
		q.drafts = nil
		return e, false
	}
	q.drafts = q.drafts[1:]
	return e, true
}

// over reports whether nothing is left to compute.
func (q *sequence) over() bool {
	return q.done.Reason != "" || q.request.Limit == 0 && q.answered == q.given()-1
}
