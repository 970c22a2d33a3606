package memra

import (
	"context"
	"fmt"
	"math"

	"memra/compute"
	"memra/sample"
)

// Comparison is how a model predicts a text that another, the reference, has predicted too.
type Comparison struct {
	PPL     float64 `json:"ppl"`
	KL      float64 `json:"kl"`       // mean Kullback-Leibler divergence of its predictions from the reference's, in nats
	SameTop float64 `json:"same_top"` // share of places where both have the same likeliest token
}

// Compare measures the model's perplexity as Perplexity does, and how other models with the same vocabulary predict the same
// tokens. The model is their reference: of a file that was quantised, the source.
func (m *Model) Compare(ctx context.Context, text string, window int, others []*Model, progress func(done, windows int, ppl float64)) (Perplexity, []Comparison, error) {
	var p Perplexity
	sums := make([]Comparison, len(others)) // of log-probabilities, divergences, and places
	for i, o := range append([]*Model{m}, others...) {
		if window < 4 || window > o.context {
			return p, nil, fmt.Errorf("memra: windows of %d tokens, want 4 to the context of %d", window, o.context)
		}
		if o.tokenizer.Vocab() != m.tokenizer.Vocab() {
			return p, nil, fmt.Errorf("memra: model %d of those to compare has %d tokens, the reference %d; compare models with one vocabulary", i, o.tokenizer.Vocab(), m.tokenizer.Vocab())
		}
	}
	windows, err := m.windows(text, window)
	if err != nil {
		return p, nil, err
	}
	p.Windows = len(windows)
	var sum float64
	var reference []prediction
	for w, tokens := range windows {
		reference = reference[:0]
		err := m.predict(ctx, tokens, func(row []float32, d sample.Distribution, next int32) {
			sum += float64(d.Of(next))
			p.Tokens++
			reference = append(reference, predictionOf(row, d))
		})
		if err != nil {
			return p, nil, err
		}
		for i, o := range others {
			at, s := 0, &sums[i]
			err := o.predict(ctx, tokens, func(row []float32, d sample.Distribution, next int32) {
				s.PPL += float64(d.Of(next))
				kl, same := reference[at].divergence(d)
				s.KL += kl
				if same {
					s.SameTop++
				}
				at++
			})
			if err != nil {
				return p, nil, err
			}
		}
		p.PPL = math.Exp(-sum / float64(p.Tokens))
		if progress != nil {
			progress(w+1, p.Windows, p.PPL)
		}
	}
	for i := range sums {
		s, n := &sums[i], float64(p.Tokens)
		*s = Comparison{PPL: math.Exp(-s.PPL / n), KL: s.KL / n, SameTop: s.SameTop / n}
	}
	return p, sums, nil
}

// predict hands out what the model predicts for each token of a window's second half: the row of logits, as it is and as
// probabilities, and the token. Rows are valid during the call only.
func (m *Model) predict(ctx context.Context, tokens []int32, each func(row []float32, d sample.Distribution, next int32)) error {
	given := len(tokens) - 1 // the last token is only predicted
	return m.between(func() error {
		s := m.newSequence()
		defer s.state.Free()
		return s.feed(ctx, tokens[:given], (given+1)/2, func(b *compute.Batch, first int) error {
			view := m.pool.View(s.state)
			rows, err := m.device.Run(func(ops compute.Ops) compute.Tensor { return m.model.Forward(ops, b, view) })
			if err != nil {
				return err
			}
			for i, row := range rows {
				d, err := sample.LogProbs(row)
				if err != nil {
					return fmt.Errorf("memra: after token %d of a window: %w", first+i, err)
				}
				each(row, d, tokens[first+i+1])
			}
			return nil
		})
	})
}

// prediction is the log-probabilities of a whole vocabulary.
type prediction struct {
	logs []float32
	top  int32
}

func predictionOf(row []float32, d sample.Distribution) prediction {
	p := prediction{logs: make([]float32, len(row)), top: d.Top(1)[0].Token}
	for t := range row {
		p.logs[t] = d.Of(int32(t))
	}
	return p
}

// divergence returns the Kullback-Leibler divergence of d from p, and whether their likeliest tokens are one.
func (p prediction) divergence(d sample.Distribution) (kl float64, same bool) {
	for t, l := range p.logs {
		if share := math.Exp(float64(l)); share > 0 {
			kl += share * (float64(l) - float64(d.Of(int32(t))))
		}
	}
	return max(0, kl), d.Top(1)[0].Token == p.top
}
