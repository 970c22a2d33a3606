package openai

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"memra"
)

// Answer has a model answer a request, all its prompts and answers at once. id tells this answer from others. An error is an *Error, if it
// is the request's own.
func (r *Request) Answer(ctx context.Context, m *memra.Model, id string) (*Completion, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make([]question, len(r.Asks))
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	do := func(work func() error) {
		wait.Go(func() {
			if err := work(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil {
					failed = err
					cancel() // the others are of no use now
				}
			}
		})
	}
	for i, ask := range r.Asks {
		q := &all[i]
		if r.Echo {
			do(func() error { return q.echo(ctx, m, ask) })
		}
		if r.Nothing {
			continue
		}
		q.answers = make([]answer, r.BestOf)
		for j := range q.answers {
			do(func() error { return q.answers[j].generate(ctx, m, r.one(ask, j)) })
		}
	}
	wait.Wait()
	if failed != nil {
		return nil, failed
	}
	return r.completion(m, id, all), nil
}

// one is the ask of the i-th answer to the same prompt: seeds count up.
func (r *Request) one(ask memra.Request, i int) memra.Request {
	ask.Sampling.Seed += uint64(i)
	ask.LogProbs = ask.LogProbs || r.BestOf > r.N // to choose by
	return ask
}

// question is a prompt, and what became of it.
type question struct {
	prompt  answer // where it is echoed
	answers []answer
}

// answer is a text with its tokens.
type answer struct {
	text   string
	tokens []memra.Token
	done   memra.Done
}

// echo is the prompt, with its log-probabilities if those are asked for.
func (q *question) echo(ctx context.Context, m *memra.Model, ask memra.Request) (err error) {
	tokens := ask.Tokens
	if tokens == nil {
		tokens = m.Tokenize(ask.Prompt)
		q.prompt.text = ask.Prompt
	} else {
		var b strings.Builder
		for _, t := range tokens {
			b.Write(m.Piece(t))
		}
		q.prompt.text = readable([]byte(b.String()))
	}
	q.prompt.done = memra.Done{Reason: "length", Prompt: len(tokens)}
	if ask.LogProbs {
		q.prompt.tokens, err = m.Score(ctx, tokens, ask.TopLogProbs)
	}
	return err
}

func (a *answer) generate(ctx context.Context, m *memra.Model, ask memra.Request) error {
	var text strings.Builder
	for c, err := range m.Generate(ctx, ask) {
		if err != nil {
			return err
		}
		text.WriteString(c.Text)
		if c.Token != nil {
			a.tokens = append(a.tokens, *c.Token)
		}
		if c.Done != nil {
			a.done = *c.Done
		}
	}
	a.text = text.String()
	return nil
}

// mean is the mean log-probability of the tokens.
func (a *answer) mean() float64 {
	sum := 0.0
	for _, t := range a.tokens {
		sum += float64(t.LogProb)
	}
	return sum / float64(len(a.tokens))
}

func (r *Request) completion(m *memra.Model, id string, all []question) *Completion {
	c := &Completion{ID: "cmpl-" + id, Object: "text_completion", Created: time.Now().Unix(), Model: filepath.Base(m.Facts().File),
		Fingerprint: "memra-" + m.Facts().Class}
	if r.Endpoint == Chat {
		c.ID, c.Object = "chatcmpl-"+id, "chat.completion"
	}
	for i, q := range all {
		c.Usage.add(q)
		if r.Nothing {
			q.answers = slices.Repeat([]answer{{done: q.prompt.done}}, r.N)
		}
		slices.SortStableFunc(q.answers, func(a, b answer) int {
			if r.BestOf == r.N {
				return 0
			}
			return cmp.Compare(b.mean(), a.mean())
		})
		for j, a := range q.answers[:r.N] {
			c.Choices = append(c.Choices, r.choice(m, i*r.N+j, q.prompt, a))
		}
	}
	return c
}

func (r *Request) choice(m *memra.Model, index int, prompt, a answer) Choice {
	choice := Choice{Index: index, Finish: a.done.Reason}
	if r.Endpoint == Chat {
		choice.Message = &Message{Role: "assistant", Content: a.text}
		if r.ask.LogProbs {
			choice.LogProbs = chatLogProbs(m, a.tokens)
		}
		return choice
	}
	text := prompt.text + a.text
	choice.Text = &text
	if r.ask.LogProbs {
		choice.LogProbs = textLogProbs(m, slices.Concat(prompt.tokens, a.tokens), r.ask.TopLogProbs)
	}
	return choice
}

func (u *Usage) add(q question) {
	prompt, cached := q.prompt.done.Prompt, 0
	for i, a := range q.answers {
		prompt = a.done.Prompt
		if i == 0 || a.done.Reused < cached {
			cached = a.done.Reused // of the answer that had to compute the most
		}
		u.Completion += a.done.Tokens
	}
	u.Prompt += prompt
	u.Details.Cached += cached
	u.Total = u.Prompt + u.Completion
}
