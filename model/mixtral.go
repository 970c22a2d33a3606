package model

import (
	"memra/compute"
	"memra/state"
)

// mixtral is llama with experts for its multilayer perceptron (arXiv:2401.04088): a row goes through the two of eight that a softmax
// ranks first, weighed by the softmax over those two. Files call it llama, as well.
//
//	x += Wo·attn(rope(Wq·n), rope(Wk·n), Wv·n)                       n = rms(x)
//	x += sum_e w_e Wd_e·(silu(Wg_e·n) ∘ (Wu_e·n))    e in top(Wr·n)  n = rms(x)
type mixtral struct {
	denseConfig
	expertsConfig
	Rope *compute.Rope `rope:"neighbours"` // in GGUF; the weights of Hugging Face's mixtral turn halves
	ends
	Layer []mixtralLayer `tensor:"blk" count:"Layers"`
}

type mixtralLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	mixture
}

func init() { RegisterMixture("llama", func() Family { return new(mixtral) }) }

func (m *mixtral) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{}), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = ops.Experts(n, ops.Router(n, l.Router, compute.Routing{Chosen: m.Chosen, Normalise: true}), l.experts(), compute.Shared{})
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
