package model

import (
	"memra/compute"
	"memra/state"
)

// qwen2moe is the sparse decoder of Qwen1.5 and Qwen2 (arXiv:2407.10671): biases of queries, keys and values, experts that keep the
// weights that the softmax over all gives them, and beside them a shared one that counts as far as a gate opens.
//
//	x += Wo·attn(rope(Wq·n + bq), rope(Wk·n + bk), Wv·n + bv)                                  n = rms(x)
//	x += sum_e w_e Wd_e·(silu(Wg_e·n) ∘ (Wu_e·n)) + sigmoid(wo·n) shared(n)    e in top(Wr·n)  n = rms(x)
type qwen2moe struct {
	qwen2moeConfig
	ends
	Layer []qwen2moeLayer `tensor:"blk" count:"Layers"`
}

type qwen2moeConfig struct {
	denseConfig
	Rope *compute.Rope `rope:"halves"`
	expertsConfig
	SharedHidden int `meta:"expert_shared_feed_forward_length"`
}

type qwen2moeLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"required"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"required"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"required"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	mixture
	shared
	SharedOpen compute.Weight `tensor:"ffn_gate_inp_shexp" shape:"1,Width"` // how far the shared expert counts
}

func init() { Register("qwen2moe", func() Family { return new(qwen2moe) }) }

func (m *qwen2moe) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
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
		r := ops.Router(n, l.Router, compute.Routing{Chosen: m.Chosen})
		y = ops.Experts(n, r, l.experts(), compute.Shared{Gate: ops.MatMul(n, l.SharedOpen), Out: l.shared.forward(ops, n)})
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
