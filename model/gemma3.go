package model

import (
	"math"

	"memra/compute"
	"memra/state"
)

// gemma3 is the dense decoder of Gemma 3 (arXiv:2503.19786): norms before and after each sublayer, normalised queries and
// keys, five windowed layers for each one that sees everything, which alone has the slow rotary base.
//
//	x += rms(Wo·attn(rope(rms(Wq·n)), rope(rms(Wk·n)), Wv·n))    n = rms(x)
//	x += rms(Wd·(gelu(Wg·n) ∘ (Wu·n)))                           n = rms(x)
//
// Files hold the gains as they multiply: converters have added the 1 of Gemma's (1 + w).
type gemma3 struct {
	denseConfig
	Window   int           `meta:"attention.sliding_window"`
	Windowed []bool        `meta:"attention.sliding_window_pattern" default:"6"` // by layer; of six, the last sees everything
	Rope     *compute.Rope `rope:"halves"`
	Near     *compute.Rope `rope:"halves,windowed"` // of windowed layers: base 10000, never scaled
	ends
	Layer []gemma3Layer `tensor:"blk" count:"Layers"`
}

type gemma3Layer struct {
	AttnNorm     compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q            compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	K            compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V            compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	QNorm        compute.Vector `tensor:"attn_q_norm" shape:"HeadDim"`
	KNorm        compute.Vector `tensor:"attn_k_norm" shape:"HeadDim"`
	O            compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	PostAttnNorm compute.Vector `tensor:"post_attention_norm" shape:"Width"`
	MLPNorm      compute.Vector `tensor:"ffn_norm" shape:"Width"`
	Gate         compute.Weight `tensor:"ffn_gate" shape:"Hidden,Width"`
	Up           compute.Weight `tensor:"ffn_up" shape:"Hidden,Width"`
	Down         compute.Weight `tensor:"ffn_down" shape:"Width,Hidden"`
	PostMLPNorm  compute.Vector `tensor:"post_ffw_norm" shape:"Width"`
}

func init() { Register("gemma3", func() Family { return new(gemma3) }) }

func (m *gemma3) State() state.Layout { return m.windowedWhere(m.Windowed, m.Window) }

// scale is 1/sqrt(HeadDim), but for the 27B model (62 layers), which scales by its width per head.
func (m *gemma3) scale() float32 {
	if m.Layers == 62 {
		return float32(1 / math.Sqrt(float64(m.Width/m.Heads)))
	}
	return float32(1 / math.Sqrt(float64(m.HeadDim)))
}

func (m *gemma3) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, float32(math.Sqrt(float64(m.Width)))) // the residual stream
	var n, y compute.Tensor                                          // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		rope, attn := m.Rope, compute.Attn{Scale: m.scale()}
		if m.Windowed[i] {
			rope, attn.Window = m.Near, m.Window
		}
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: rope, QNorm: l.QNorm, KNorm: l.KNorm, Eps: m.Eps})
		ops.AppendKV(b, kv, k, v)
		y = ops.Norm(ops.MatMul(ops.Attention(b, q, kv, attn), l.O), l.PostAttnNorm, m.Eps)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = ops.MatMul(ops.GeGLU(ops.MatMul(n, l.Gate), ops.MatMul(n, l.Up)), l.Down)
		y = ops.Norm(y, l.PostMLPNorm, m.Eps)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
