package memra

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// MostAnswers is how many answers a request may ask for.
const MostAnswers = 128

// Answer is a whole answer.
type Answer struct {
	Text   string
	Tokens []Token
	Done   Done
}

// Answers collects the answers to a request, all N of them. BestFirst sorts them.
func (m *Model) Answers(ctx context.Context, r Request) ([]Answer, error) {
	answers := make([]Answer, max(1, min(r.N, MostAnswers)))
	texts := make([]strings.Builder, len(answers))
	err := m.generate(ctx, r, func(c Chunk) bool {
		a := &answers[c.Index]
		texts[c.Index].WriteString(c.Text)
		if c.Token != nil {
			a.Tokens = append(a.Tokens, *c.Token)
		}
		if c.Done != nil {
			a.Done = *c.Done
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].Text = texts[i].String()
	}
	return answers, nil
}

// BestFirst sorts answers, whose log-probabilities were asked for, by the mean of those of their tokens, the largest first.
func BestFirst(answers []Answer) {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(b.mean(), a.mean()) })
}

// mean is the mean log-probability of the tokens.
func (a *Answer) mean() float64 {
	sum := 0.0
	for _, t := range a.Tokens {
		sum += float64(t.LogProb)
	}
	return sum / float64(max(1, len(a.Tokens)))
}
