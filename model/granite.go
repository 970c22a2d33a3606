package model

import (
	"memra/compute"
	"memra/state"
)

// granite is the dense decoder of Granite 3 and 4: a llama with four multipliers, so that widths may grow without new learning
// rates (muP, arXiv:2203.03466).
//
//	x = e·embedding
//	x += r·Wo·attn(rope(Wq·n), rope(Wk·n), Wv·n)    n = rms(x), scores times a
//	x += r·Wd·(silu(Wg·n) ∘ (Wu·n))                 n = rms(x)
//	logits = W·rms(x) / l
type granite struct {
	denseConfig
	EmbedScale float32       `meta:"embedding_scale" default:"1"` // e
	Sublayer   float32       `meta:"residual_scale" default:"1"`  // r
	Scores     float32       `meta:"attention.scale" default:"0"` // a; 0: 1/sqrt(HeadDim)
	LogitScale float32       `meta:"logit_scale" default:"1"`     // l
	Rope       *compute.Rope `rope:"neighbours"`
	ends
	Layer []graniteLayer `tensor:"blk" count:"Layers"`
}

type graniteLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"optional"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim" bias:"optional"`
	MLPNorm  compute.Vector `tensor:"ffn_norm" shape:"Width"`
	perceptron
}

func init() { Register("granite", func() Family { return new(granite) }) }

func (m *granite) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, m.EmbedScale) // the residual stream
	var n, y compute.Tensor                  // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Scale: m.Scores}), l.O)
		x, n = ops.AddNorm(x, ops.Scale(y, m.Sublayer, 0), l.MLPNorm, m.Eps)
		y = ops.Scale(l.mlp(ops, n), m.Sublayer, 0)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Scale(ops.Logits(b, n, m.Out), 1/m.LogitScale, 0)
}
