package memra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"memra/engine"
)

// Score returns each token's log-probability given those before it, and the `top` likeliest at its place. The first token
// follows nothing: its LogProb is NaN. The figures are bit for bit those that generating the tokens gives.
func (m *Model) Score(ctx context.Context, tokens []int32, top int) ([]Token, error) {
	if err := m.scorable(tokens); err != nil {
		return nil, err
	}
	scored := []Token{{ID: tokens[0], LogProb: float32(math.NaN())}}
	err := m.score(ctx, tokens, engine.Score{Top: max(0, top)}, func(t Token) { scored = append(scored, t) })
	return scored, err
}

// score hands out what the rows of tokens say of those that follow them.
func (m *Model) score(ctx context.Context, tokens []int32, s engine.Score, each func(Token)) error {
	if s.From+1 >= len(tokens) {
		return nil
	}
	a, err := m.submit(ctx, engine.Request{Tokens: tokens, Score: &s})
	if err != nil {
		return err
	}
	defer a.Cancel()
	for {
		e, err := a.Next(ctx)
		if err != nil || e.Done != nil {
			return named(err)
		}
		each(Token{ID: e.Token, LogProb: e.LogProb, Top: e.Top})
	}
}

// scorable says why tokens cannot be scored, if they cannot.
func (m *Model) scorable(tokens []int32) error {
	switch {
	case len(tokens) == 0:
		return &RequestError{Err: errors.New("memra: no tokens to score")}
	case len(tokens) > m.context:
		return &RequestError{TooLong: true, Err: fmt.Errorf("memra: %d tokens to score and a context of %d; score parts, or open the model with a larger context", len(tokens), m.context)}
	}
	return m.inVocabulary(tokens)
}

// inVocabulary is an error of the first token that does not exist.
func (m *Model) inVocabulary(tokens []int32) error {
	if i := slices.IndexFunc(tokens, func(t int32) bool { return t < 0 || int(t) >= m.model.Vocab }); i >= 0 {
		return &RequestError{Err: fmt.Errorf("memra: token %d at place %d, want 0 to %d", tokens[i], i, m.model.Vocab-1)}
	}
	return nil
}

// Perplexity is how well a model predicts a text.
type Perplexity struct {
	PPL     float64 `json:"ppl"`     // exp of the mean negative log-probability
	Tokens  int     `json:"tokens"`  // that were scored
	Windows int     `json:"windows"` // whole windows of the text
}

// Perplexity measures by llama.cpp's protocol: the text is cut into windows of so many tokens, and in each the second half is
// scored; a model that wants a start token gets it in place of each window's first. What does not fill a window is left
// out. progress, if not nil, hears of each window.
func (m *Model) Perplexity(ctx context.Context, text string, window int, progress func(done, windows int, ppl float64)) (Perplexity, error) {
	var p Perplexity
	if window < 4 || window > m.context {
		return p, fmt.Errorf("memra: windows of %d tokens, want 4 to the context of %d", window, m.context)
	}
	windows, err := m.windows(text, window)
	if err != nil {
		return p, err
	}
	p.Windows = len(windows)
	var sum float64
	for w, tokens := range windows {
		if err := m.window(ctx, tokens, &sum, &p.Tokens); err != nil {
			return p, err
		}
		p.PPL = math.Exp(-sum / float64(p.Tokens))
		if progress != nil {
			progress(w+1, p.Windows, p.PPL)
		}
	}
	return p, nil
}

// windows cuts a text into windows of so many tokens, and puts the start token in front of each where the model wants one.
func (m *Model) windows(text string, window int) ([][]int32, error) {
	tokens := m.Tokenize(text)
	if len(tokens) < window {
		return nil, fmt.Errorf("memra: the text has %d tokens, fewer than a window of %d", len(tokens), window)
	}
	var windows [][]int32
	for ; len(tokens) >= window; tokens = tokens[window:] {
		part := append([]int32(nil), tokens[:window]...)
		if m.tokenizer.AddsBOS() {
			part[0] = m.tokenizer.BOS()
		}
		windows = append(windows, part)
	}
	return windows, nil
}

// window adds the log-probabilities of a window's second half.
func (m *Model) window(ctx context.Context, tokens []int32, sum *float64, scored *int) error {
	return m.score(ctx, tokens, engine.Score{From: len(tokens) / 2}, func(t Token) {
		*sum += float64(t.LogProb)
		*scored++
	})
}
