package model

import (
	"math"

	"memra/compute"
	"memra/state"
)

// gemma2 is the dense decoder of Gemma 2 (arXiv:2408.00118): norms before and after each sublayer, scores and logits that bend
// towards a cap, and windows in every other layer, from the first on.
//
//	x += rms(Wo·attn(rope(Wq·n), rope(Wk·n), Wv·n))    n = rms(x), scores s become c·tanh(s/c)
//	x += rms(Wd·(gelu(Wg·n) ∘ (Wu·n)))                 n = rms(x)
//	logits = l·tanh(W·rms(x)/l)
//
// Files hold the gains as they multiply: converters have added the 1 of Gemma's (1 + w).
type gemma2 struct {
	denseConfig
	Window   int           `meta:"attention.sliding_window"`
	ScoreCap float32       `meta:"attn_logit_softcapping" default:"50"`  // c
	LogitCap float32       `meta:"final_logit_softcapping" default:"30"` // l
	Rope     *compute.Rope `rope:"halves"`
	ends
	Layer []gemma2Layer `tensor:"blk" count:"Layers"`
}

type gemma2Layer struct {
	AttnNorm     compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q            compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	K            compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V            compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	O            compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	PostAttnNorm compute.Vector `tensor:"post_attention_norm" shape:"Width"`
	MLPNorm      compute.Vector `tensor:"ffn_norm" shape:"Width"`
	Gate         compute.Weight `tensor:"ffn_gate" shape:"Hidden,Width"`
	Up           compute.Weight `tensor:"ffn_up" shape:"Hidden,Width"`
	Down         compute.Weight `tensor:"ffn_down" shape:"Width,Hidden"`
	PostMLPNorm  compute.Vector `tensor:"post_ffw_norm" shape:"Width"`
}

func init() { Register("gemma2", func() Family { return new(gemma2) }) }

func (m *gemma2) State() state.Layout {
	layout := m.windowed(m.Window)
	for i := 1; i < len(layout); i += 2 {
		layout[i].Window = 0
	}
	return layout
}

// scale is 1/sqrt(HeadDim), but for the 27B model (46 layers), which scales by its width per head.
func (m *gemma2) scale() float32 {
	if m.Layers == 46 {
		return float32(1 / math.Sqrt(float64(m.Width/m.Heads)))
	}
	return float32(1 / math.Sqrt(float64(m.HeadDim)))
}

func (m *gemma2) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, float32(math.Sqrt(float64(m.Width)))) // the residual stream
	var n, y compute.Tensor                                          // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		attn := compute.Attn{Scale: m.scale(), Cap: m.ScoreCap}
		if i%2 == 0 {
			attn.Window = m.Window
		}
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		y = ops.Norm(ops.MatMul(ops.Attention(b, q, kv, attn), l.O), l.PostAttnNorm, m.Eps)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = ops.MatMul(ops.GeGLU(ops.MatMul(n, l.Gate), ops.MatMul(n, l.Up)), l.Down)
		y = ops.Norm(y, l.PostMLPNorm, m.Eps)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Scale(ops.Logits(b, n, m.Out), 1, m.LogitCap)
}
