package engine

import (
	"errors"
	"fmt"
	"slices"

	"memra/sample"
)

// Request is tokens, and what is wanted of them: what they say of themselves, what follows them, or both. Nobody changes it after Submit.
type Request struct {
	Tokens []int32 // the prompt, at least one

	Limit int         // the most tokens of an answer; 0: no answer
	Draw  sample.Draw // how a token is drawn, and what is told of it: Params, LogProb, Top, Filtered; the rest is the engine's affair
	First *First      // how the first one is, where that differs
	Ends  []int32     // tokens that end an answer, and are the last of it
	N     int         // answers, by forks: answer i draws with Seed+i; 0: 1

	Score *Score // what the prompt's rows say of the tokens that follow them; nil: nothing

	Drafts int // the most tokens guessed ahead in a step; 0: as many as pay, of those that the engine allows; below 0: none

	Patient bool // nobody waits for its tokens one by one: prompts of others need not mind it

	Tenant string // whose cached prefixes it may use, and whose turn it is
}

// First is how the first token of an answer is drawn. Its functions are quick, for the device waits, and depend on their arguments alone.
type First struct {
	Ask    func(sample.Draw) sample.Draw // what is asked instead of what the request's Draw comes to
	Choose func(sample.Pick) sample.Pick // the token, given what the row said
}

// Score asks for the log-probability of each token of the prompt from From+1 on, given those before it: row i speaks of token i+1.
type Score struct {
	From int
	Top  int // and for so many of the likeliest in its place
}

// answers is how many are wanted.
func (r *Request) answers() int { return max(1, r.N) }

// length is the most tokens of one of its sequences.
func (r *Request) length() int { return len(r.Tokens) + r.Limit }

// check reports what no device could serve.
func (r *Request) check(vocab, context int) error {
	given := len(r.Tokens)
	bad := slices.IndexFunc(r.Tokens, func(t int32) bool { return t < 0 || int(t) >= vocab })
	switch {
	case given == 0:
		return errors.New("engine: a request without a token, want at least one to continue or to score")
	case bad >= 0:
		return fmt.Errorf("engine: token %d of the prompt: %d, want 0 to %d", bad, r.Tokens[bad], vocab-1)
	case r.Limit < 0:
		return fmt.Errorf("engine: a limit of %d tokens, want 0 for no answer, or more", r.Limit)
	case r.length() > context:
		return fmt.Errorf("engine: %d tokens given and up to %d generated exceed the context of %d; shorten the prompt, ask for fewer tokens, or open the model with a larger context",
			given, r.Limit, context)
	case r.Score != nil && (r.Score.From < 0 || r.Score.From >= max(1, given)):
		return fmt.Errorf("engine: scores from row %d on, want 0 to %d", r.Score.From, given-1)
	case r.Limit == 0 && (r.Score == nil || r.Score.From+1 >= given):
		return fmt.Errorf("engine: %d tokens, no answer, and no token to score: nothing is asked for", given)
	case r.N < 0 || r.N > 1 && r.Limit == 0:
		return fmt.Errorf("engine: %d answers of up to %d tokens, want none negative, and one without an answer", r.N, r.Limit)
	}
	for _, top := range []int{r.Draw.Top, r.top()} {
		if err := (sample.Draw{Top: top}).Check(vocab); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
	}
	return nil
}

// top is how many likeliest tokens are wanted beside each score.
func (r *Request) top() int {
	if r.Score == nil {
		return 0
	}
	return r.Score.Top
}

// sequences makes the request's.
func (r *Request) sequences(a *Answer, vocab int) (list []*sequence, err error) {
	ends := make(map[int32]bool, len(r.Ends))
	for _, t := range r.Ends {
		ends[t] = true
	}
	for i := range r.answers() {
		q := &sequence{answer: a, request: r, index: i, ends: ends, answered: len(r.Tokens) - 1, tokens: slices.Clone(r.Tokens), done: Done{Usage: Usage{Given: len(r.Tokens)}}}
		if i == 0 && r.Score != nil {
			q.answered = r.Score.From
		}
		if i > 0 {
			q.lead = list[0]
		}
		params := r.Draw.Params
		params.Seed += uint64(i)
		if q.history, err = sample.NewHistory(params, vocab); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		q.history.Append(r.Tokens...)
		list = append(list, q)
	}
	return list, nil
}
