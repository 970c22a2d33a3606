package model

import (
	"memra/compute"
	"memra/state"
)

// phi3 is the dense decoder of Phi 3, 3.5 and 4 (arXiv:2404.14219): a llama with one matrix for queries, keys and values, and one
// for both sides of the gate. Some models see windows, some turn a part of each head, those for long texts stretch each rotary pair
// by a divisor of its own (LongRoPE, arXiv:2402.13753).
//
//	x += Wo·attn(rope(q), rope(k), v)    q, k, v = Wqkv·n    n = rms(x)
//	x += Wd·(silu(g) ∘ u)                g, u = Wgu·n        n = rms(x)
type phi3 struct {
	denseConfig
	Window int           `meta:"attention.sliding_window" default:"0"`
	Rope   *compute.Rope `rope:"halves"`
	ends
	Layer []phi3Layer `tensor:"blk" count:"Layers"`
}

type phi3Layer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	QKV      compute.Weight `tensor:"attn_qkv" shape:"2*KVHeads+Heads*HeadDim,Width"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	Gate     compute.Weight `tensor:"ffn_up/0" shape:"Hidden,Width"`
	Up       compute.Weight `tensor:"ffn_up/1" shape:"Hidden,Width"`
	Down     compute.Weight `tensor:"ffn_down" shape:"Width,Hidden"`
}

func init() { Register("phi3", func() Family { return new(phi3) }) }

func (m *phi3) State() state.Layout { return m.windowed(m.Window) }

func (m *phi3) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	queries, keys := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		qkv := ops.MatMul(n, l.QKV)
		q, k, v := ops.Columns(qkv, 0, queries), ops.Columns(qkv, queries, keys), ops.Columns(qkv, queries+keys, keys)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Window: m.Window}), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = swiGLU(ops, n, l.Gate, l.Up, l.Down)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
