package model

import (
	"memra/compute"
	"memra/state"
)

// olmoe is the sparse decoder of OLMoE (arXiv:2409.02060): queries and keys are normalised over all their heads together, and the
// chosen experts keep the weights that the softmax over all gives them.
//
//	x += Wo·attn(rope(rms(Wq·n)), rope(rms(Wk·n)), Wv·n)             n = rms(x)
//	x += sum_e w_e Wd_e·(silu(Wg_e·n) ∘ (Wu_e·n))    e in top(Wr·n)  n = rms(x)
type olmoe struct {
	denseConfig
	expertsConfig
	Rope *compute.Rope `rope:"halves"`
	ends
	Layer []olmoeLayer `tensor:"blk" count:"Layers"`
}

type olmoeLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	QNorm    compute.Vector `tensor:"attn_q_norm" shape:"Heads*HeadDim"`
	KNorm    compute.Vector `tensor:"attn_k_norm" shape:"KVHeads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	mixture
}

func init() { Register("olmoe", func() Family { return new(olmoe) }) }

func (m *olmoe) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.Norm(q, l.QNorm, m.Eps), ops.Norm(k, l.KNorm, m.Eps)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{}), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = ops.Experts(n, ops.Router(n, l.Router, compute.Routing{Chosen: m.Chosen}), l.experts(), compute.Shared{})
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
