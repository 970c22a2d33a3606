package model

import (
	"memra/compute"
	"memra/state"
)

// What dense decoders have in common: their sizes, their ends, and the perceptron of their layers.

// denseConfig is the sizes of a dense decoder.
type denseConfig struct {
	Layers  int     `meta:"block_count"`
	Width   int     `meta:"embedding_length"`
	Hidden  int     `meta:"feed_forward_length"`
	Vocab   int     `meta:"vocab_size" default:"rows(token_embd)"`
	Heads   int     `meta:"attention.head_count"`
	KVHeads int     `meta:"attention.head_count_kv" default:"Heads"`
	HeadDim int     `meta:"attention.key_length" default:"Width/Heads"`
	Eps     float32 `meta:"attention.layer_norm_rms_epsilon"`
}

// State is a cache of every layer's keys and values.
func (c *denseConfig) State() state.Layout { return state.KV(c.Layers, c.KVHeads, c.HeadDim) }

// windowed is the State of layers that see so many positions; 0: all.
func (c *denseConfig) windowed(window int) state.Layout {
	layout := c.State()
	for i := range layout {
		layout[i].Window = window
	}
	return layout
}

// windowedWhere is the State of layers of which the marked ones see so many positions, and the others all.
func (c *denseConfig) windowedWhere(marked []bool, window int) state.Layout {
	layout := c.State()
	for i := range layout {
		if marked[i] {
			layout[i].Window = window
		}
	}
	return layout
}

// ends are what is before the layers and after them.
type ends struct {
	Embed   compute.Weight `tensor:"token_embd" shape:"Vocab,Width"`
	OutNorm compute.Vector `tensor:"output_norm" shape:"Width"`
	Out     compute.Weight `tensor:"output,token_embd" shape:"Vocab,Width"` // second name: tied to the embedding
}

// perceptron is Wd·(silu(Wg·n) ∘ (Wu·n)).
type perceptron struct {
	Gate compute.Weight `tensor:"ffn_gate" shape:"Hidden,Width"`
	Up   compute.Weight `tensor:"ffn_up" shape:"Hidden,Width"`
	Down compute.Weight `tensor:"ffn_down" shape:"Width,Hidden"`
}

func (p *perceptron) mlp(ops compute.Ops, n compute.Tensor) compute.Tensor {
	return swiGLU(ops, n, p.Gate, p.Up, p.Down)
}

// swiGLU is down·(silu(gate·n) ∘ (up·n)).
func swiGLU(ops compute.Ops, n compute.Tensor, gate, up, down compute.Weight) compute.Tensor {
	return ops.MatMul(ops.SwiGLU(ops.MatMul(n, gate), ops.MatMul(n, up)), down)
}
