package model

import (
	"memra/compute"
	"memra/state"
)

// qwen2 is the dense decoder of Qwen 2 and 2.5 (arXiv:2407.10671): a llama whose queries, keys and values have biases.
//
//	x += Wo·attn(rope(Wq·n + bq), rope(Wk·n + bk), Wv·n + bv)    n = rms(x)
//	x += Wd·(silu(Wg·n) ∘ (Wu·n))                                n = rms(x)
type qwen2 struct {
	denseConfig
	Rope *compute.Rope `rope:"halves"`
	ends
	Layer []qwen2Layer `tensor:"blk" count:"Layers"`
}

type qwen2Layer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"required"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"required"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"required"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	perceptron
}

func init() { Register("qwen2", func() Family { return new(qwen2) }) }

func (m *qwen2) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
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
		y = l.mlp(ops, n)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
