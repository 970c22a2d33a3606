package model

import (
	"memra/compute"
	"memra/state"
)

// llama is the dense pre-norm decoder: Llama 1 to 3, Mistral, SmolLM and their fine-tunes (arXiv:2302.13971, 2.2).
//
//	x += Wo·attn(rope(Wq·n), rope(Wk·n), Wv·n)    n = rms(x)
//	x += Wd·(silu(Wg·n) ∘ (Wu·n))                 n = rms(x)
type llama struct {
	denseConfig
	Window int           `meta:"attention.sliding_window" default:"0"` // the first Mistral's; 0: none
	Rope   *compute.Rope `rope:"neighbours"`                           // in GGUF; the weights of Hugging Face's llama turn halves
	ends
	Layer []llamaLayer `tensor:"blk" count:"Layers"`
}

type llamaLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"optional"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim" bias:"optional"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	Gate     compute.Weight `tensor:"ffn_gate" shape:"Hidden,Width" bias:"optional"`
	Up       compute.Weight `tensor:"ffn_up" shape:"Hidden,Width" bias:"optional"`
	Down     compute.Weight `tensor:"ffn_down" shape:"Width,Hidden" bias:"optional"`
}

func init() { Register("llama", func() Family { return new(llama) }) }

func (m *llama) State() state.Layout { return m.windowed(m.Window) }

func (m *llama) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Window: m.Window}), l.O) // causal, 1/sqrt(HeadDim)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = swiGLU(ops, n, l.Gate, l.Up, l.Down)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
