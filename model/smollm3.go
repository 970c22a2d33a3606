package model

import (
	"memra/compute"
	"memra/state"
)

// smollm3 is the dense decoder of SmolLM 3: a llama in which every fourth layer's queries and keys do not turn (NoPE,
// arXiv:2501.18795), so that what it attends to does not depend on how far away it is.
//
//	x += Wo·attn(rope(Wq·n), rope(Wk·n), Wv·n)    n = rms(x), without rope in layers 3, 7, ..
//	x += Wd·(silu(Wg·n) ∘ (Wu·n))                 n = rms(x)
type smollm3 struct {
	denseConfig
	Rope *compute.Rope `rope:"neighbours"`
	ends
	Layer []smollm3Layer `tensor:"blk" count:"Layers"`
}

type smollm3Layer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"optional"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim" bias:"optional"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	perceptron
}

func init() { Register("smollm3", func() Family { return new(smollm3) }) }

func (m *smollm3) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		if i%4 != 3 {
			q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		}
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{}), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = l.mlp(ops, n)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
