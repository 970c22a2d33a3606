package model_test

import (
	"slices"
	"testing"

	"memra/compute"
	"memra/hf"
	"memra/internal/golden"
	"memra/model"
	"memra/state"
)

// A layer that drafts, put together of transformers' parts (tools/oracle/draft.py), from both kinds of file. The prompts are computed whole
// and token by token: drafts of what is known so far.
func TestDraftsAgreeWithTransformersParts(t *testing.T) {
	g, err := golden.LoadTiny("testdata/draft/qwen35-draft")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := g.Unpack(folder); err != nil {
		t.Fatal(err)
	}
	f, err := hf.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, src := range map[string]model.Source{"GGUF": model.GGUF(file(t, g.GGUF)), "safetensors": f} {
		t.Run(name, func(t *testing.T) {
			r := open(t, src, compute.KVF32)
			drafter, ok := r.model.Family.(model.Drafter)
			if !ok || len(drafter.DraftState()) != 1 {
				t.Fatal("the model has no layer that drafts")
			}
			pool, err := state.NewPool(r.device, drafter.DraftState(), state.Config{Format: compute.KVF32, Positions: 600, Sequences: 1, Step: 128})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			for _, p := range g.Prompts {
				n := len(p.Tokens) - 1
				for _, step := range []int{n, 1} {
					features := drafts(t, r, drafter, pool, p.Tokens, step, false)
					logits := drafts(t, r, drafter, pool, p.Tokens, step, true)
					for i, position := range p.Positions {
						within(t, "the drafts' state in steps of", step, features[position], p.Hidden[0][i])
						within(t, "the drafts' logits in steps of", step, logits[position], p.Logits[i])
					}
					if last := remembers(t, r, drafter, pool, p.Tokens, step); !slices.Equal(last, features[n-1]) {
						t.Errorf("in steps of %d, the last draft after what was only remembered is another than after drafts", step)
					}
				}
			}
		})
	}
}

// drafts guesses what follows each token but the last two, so many tokens a step, and returns logits or what they are made of.
func drafts(t *testing.T, r *runner, drafter model.Drafter, pool *state.Pool, tokens []int32, step int, logits bool) (rows [][]float32) {
	r.sequence.Free()
	memory := pool.NewSequence()
	defer memory.Free()
	for at := 0; at < len(tokens)-1; at += step {
		if err := memory.Extend(step); err != nil {
			t.Fatal(err)
		}
		var next compute.Batch
		for i := range step {
			next.Add(tokens[at+i+1], at+i, 0, true)
		}
		view := pool.View(memory)
		for _, row := range r.run(tokens[at:at+step], func(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
			features := drafter.Draft(ops, &next, drafter.Features(ops, b, s), view)
			if logits {
				return ops.MatMul(features, drafter.Guesses())
			}
			return features
		}) {
			rows = append(rows, slices.Clone(row))
		}
	}
	return rows
}

// remembers guesses what follows the token before the last, after having stored what drafts of those before would have.
func remembers(t *testing.T, r *runner, drafter model.Drafter, pool *state.Pool, tokens []int32, step int) []float32 {
	r.sequence.Free()
	memory := pool.NewSequence()
	defer memory.Free()
	n := len(tokens) - 1
	kept, err := r.device.NewRows(n, drafter.FeatureWidth())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	every := make([]int32, n)
	for i := range every {
		every[i] = int32(i)
	}
	var last []float32
	for at := 0; at < n; at += step {
		rows := min(step, n-at)
		r.run(tokens[at:at+rows], func(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
			x := drafter.Features(ops, b, s)
			ops.Keep(kept, x, every[:rows], every[:rows])
			return x
		})
		if err := memory.Extend(rows); err != nil {
			t.Fatal(err)
		}
		view := pool.View(memory)
		var before, draft compute.Batch
		for i := range rows {
			if at+i < n-1 {
				before.Add(tokens[at+i+1], at+i, 0, false)
			} else {
				draft.Add(tokens[at+i+1], at+i, 0, true)
			}
		}
		out, err := r.device.Run(func(ops compute.Ops) compute.Tensor {
			if n := before.Rows(); n > 0 {
				drafter.Remember(ops, &before, ops.Kept(kept, every[:n]), view)
			}
			if draft.Rows() == 0 {
				return compute.Tensor{}
			}
			return drafter.Draft(ops, &draft, ops.Kept(kept, every[rows-1:rows]), view)
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 0 {
			last = slices.Clone(out[0])
		}
	}
	return last
}
