package model

import (
	"memra/compute"
	"memra/state"
)

// qwen3 is the dense decoder of Qwen 3 (arXiv:2505.09388): a llama that normalises the heads of queries and keys.
//
//	x += Wo·attn(rope(rms(Wq·n)), rope(rms(Wk·n)), Wv·n)    n = rms(x)
//	x += Wd·(silu(Wg·n) ∘ (Wu·n))                           n = rms(x)
type qwen3 struct {
	denseConfig
	Rope *compute.Rope `rope:"halves"`
	ends
	Layer []qwen3Layer `tensor:"blk" count:"Layers"`
}

type qwen3Layer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	QNorm    compute.Vector `tensor:"attn_q_norm" shape:"HeadDim"`
	KNorm    compute.Vector `tensor:"attn_k_norm" shape:"HeadDim"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	perceptron
}

func init() { Register("qwen3", func() Family { return new(qwen3) }) }

func (m *qwen3) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope, QNorm: l.QNorm, KNorm: l.KNorm, Eps: m.Eps})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{}), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = l.mlp(ops, n)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
