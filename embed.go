package memra

import (
	"context"
	"fmt"

	"memra/compute"
)

// Pooling says how the vectors of tokens become one of a text.
type Pooling int

const (
	Mean Pooling = iota // of all tokens
	Last                // the last token's, which has seen all others
)

// Embed is what the model has made of tokens: the vectors that its logits would be made of, after the last norm, pooled, of the model's width and
// not normalised any further. It is a function of the model, the kind of device and the tokens, like all else. Requests that
// run wait meanwhile.
func (m *Model) Embed(ctx context.Context, tokens []int32, p Pooling) ([]float32, error) {
	if err := m.scorable(tokens); err != nil {
		return nil, err
	}
	if p != Mean && p != Last {
		return nil, &RequestError{Err: fmt.Errorf("memra: pooling %d, want Mean or Last", p)}
	}
	from := 0
	if p == Last {
		from = len(tokens) - 1
	}
	var sum []float64 // in the tokens' order
	err := m.engine.Aside(len(tokens), func() error {
		s := m.newSequence()
		defer s.state.Free()
		return s.feed(ctx, tokens, len(tokens), func(b *compute.Batch, _ int) error {
			view := m.pool.View(s.state)
			rows, err := m.device.Run(func(ops compute.Ops) compute.Tensor { return m.model.Features(ops, b, view) })
			if err != nil {
				return err
			}
			for _, row := range rows[min(len(rows), max(0, from-(len(s.tokens)-len(rows)))):] {
				if sum == nil {
					sum = make([]float64, len(row))
				}
				for i, x := range row {
					sum[i] += float64(x)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, named(err)
	}
	vector := make([]float32, len(sum))
	for i, x := range sum {
		vector[i] = float32(x / float64(len(tokens)-from))
	}
	return vector, nil
}
