package model

import (
	"memra/compute"
	"memra/state"
)

// gptoss is the sparse decoder of gpt-oss (arXiv:2508.10925): biases everywhere, every other layer windowed, attention that may look
// away (a learned score of each head that has no value), and experts of clamped gates, weighed by the softmax over the chosen ones.
//
//	x += Wo·attn(rope(Wq·n + bq), rope(Wk·n + bk), Wv·n + bv) + bo                 n = rms(x)
//	x += sum_e w_e (Wd_e·clamped(Wg_e·n + bg_e, Wu_e·n + bu_e) + bd_e)   e in top(Wr·n + br)    n = rms(x)
type gptoss struct {
	gptossConfig
	ends
	Layer []gptossLayer `tensor:"blk" count:"Layers"`
}

type gptossConfig struct {
	denseConfig
	Rope     *compute.Rope `rope:"halves,within"`
	Window   int           `meta:"attention.sliding_window"`
	Windowed []bool        `meta:"attention.sliding_window_pattern" default:"2"` // by layer; of two, the second sees everything
	expertsConfig
}

type gptossLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"required"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"required"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"required"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim" bias:"required"`
	Sinks    compute.Vector `tensor:"attn_sinks" shape:"Heads"`
	MLPNorm  compute.Vector `tensor:"post_attention_norm,ffn_norm" shape:"Width"`
	Router   compute.Weight `tensor:"ffn_gate_inp" shape:"Experts,Width" bias:"required"`
	Gate     compute.Weight `tensor:"ffn_gate_exps" shape:"Experts,ExpertHidden,Width" bias:"required"`
	Up       compute.Weight `tensor:"ffn_up_exps" shape:"Experts,ExpertHidden,Width" bias:"required"`
	Down     compute.Weight `tensor:"ffn_down_exps" shape:"Experts,Width,ExpertHidden" bias:"required"`
}

func init() { Register("gpt-oss", func() Family { return new(gptoss) }) }

func (m *gptoss) State() state.Layout { return m.windowedWhere(m.Windowed, m.Window) }

// clampLimit is where gates and values of experts end.
const clampLimit = 7

func (m *gptoss) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l, kv := &m.Layer[i], s.KV(i)
		x, n = ops.AddNorm(x, y, l.AttnNorm, m.Eps)
		q, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope})
		ops.AppendKV(b, kv, k, v)
		attn := compute.Attn{Sinks: l.Sinks}
		if m.Windowed[i] {
			attn.Window = m.Window
		}
		y = ops.MatMul(ops.Attention(b, q, kv, attn), l.O)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		r := ops.Router(n, l.Router, compute.Routing{Chosen: m.Chosen, Normalise: true})
		y = ops.Experts(n, r, compute.Experts{Gate: l.Gate, Up: l.Up, Down: l.Down, Gating: compute.ClampedSwiGLU, Limit: clampLimit}, compute.Shared{})
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}
