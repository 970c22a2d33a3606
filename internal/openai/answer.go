package openai

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"memra"
)

// Answer has a model answer a request, all its prompts at once. id tells this answer from others. An error is an *Error or a
// *memra.RequestError, if it is the request's own.
func (r *Request) Answer(ctx context.Context, m *memra.Model, id string) (*Completion, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make([]question, len(r.Asks))
	var wait sync.WaitGroup
	var first sync.Once
	var failed error
	for i, ask := range r.Asks {
		wait.Go(func() {
			if err := r.answer(ctx, m, ask, &all[i]); err != nil {
				first.Do(func() { failed = err })
				cancel() // the others are of no use now
			}
		})
	}
	wait.Wait()
	if failed != nil {
		return nil, failed
	}
	return r.completion(m, id, all), nil
}

// question is a prompt, and what became of it.
type question struct {
	echo    memra.Answer // the prompt itself, where it is echoed
	answers []memra.Answer
}

func (r *Request) answer(ctx context.Context, m *memra.Model, ask memra.Request, q *question) (err error) {
	if r.Echo {
		if q.echo, err = echo(ctx, m, ask); err != nil {
			return err
		}
	}
	if r.Nothing {
		q.answers = slices.Repeat([]memra.Answer{{Done: q.echo.Done}}, r.N)
		return nil
	}
	ask.N, ask.LogProbs = r.BestOf, ask.LogProbs || r.BestOf > r.N // to choose by
	if q.answers, err = m.Answers(ctx, ask); err == nil && r.BestOf > r.N {
		memra.BestFirst(q.answers)
	}
	return err
}

// echo is a prompt as an answer, with its log-probabilities if those are asked for.
func echo(ctx context.Context, m *memra.Model, ask memra.Request) (a memra.Answer, err error) {
	tokens := ask.Tokens
	a.Text = ask.Prompt
	if tokens == nil {
		tokens = m.Tokenize(ask.Prompt)
	} else {
		var b []byte
		for _, t := range tokens {
			b = append(b, m.Piece(t)...)
		}
		a.Text = readable(b)
	}
	a.Done = memra.Done{Reason: "length", Prompt: len(tokens)}
	if ask.LogProbs {
		a.Tokens, err = m.Score(ctx, tokens, ask.TopLogProbs)
	}
	return a, err
}

func (r *Request) completion(m *memra.Model, id string, all []question) *Completion {
	c := &Completion{ID: "cmpl-" + id, Object: "text_completion", Created: time.Now().Unix(), Model: filepath.Base(m.Facts().File),
		Fingerprint: "memra-" + m.Facts().Class}
	if r.Endpoint == Chat {
		c.ID, c.Object = "chatcmpl-"+id, "chat.completion"
	}
	for i, q := range all {
		c.Usage.add(q)
		for j, a := range q.answers[:r.N] {
			c.Choices = append(c.Choices, r.choice(m, i*r.N+j, q.echo, a))
		}
	}
	return c
}

func (r *Request) choice(m *memra.Model, index int, prompt, a memra.Answer) Choice {
	choice := Choice{Index: index, Finish: a.Done.Reason}
	if r.Endpoint == Chat {
		choice.Message = &Message{Role: "assistant", Content: a.Text}
		if r.ask.LogProbs {
			choice.LogProbs = chatLogProbs(m, a.Tokens)
		}
		return choice
	}
	text := prompt.Text + a.Text
	choice.Text = &text
	if r.ask.LogProbs {
		choice.LogProbs = textLogProbs(m, slices.Concat(prompt.Tokens, a.Tokens), r.ask.TopLogProbs)
	}
	return choice
}

func (u *Usage) add(q question) {
	cached := q.answers[0].Done.Reused
	for _, a := range q.answers {
		cached = min(cached, a.Done.Reused) // of the answer that had to compute the most
		u.Completion += a.Done.Tokens
	}
	u.Prompt += q.answers[0].Done.Prompt
	u.Details.Cached += cached
	u.Total = u.Prompt + u.Completion
}
