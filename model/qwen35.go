package model

import (
	"memra/compute"
	"memra/state"
)

// qwen35 is the hybrid decoder of Qwen3-Next, Qwen3.5 and Qwen3.6: gated delta nets (arXiv:2412.06464), and in every fourth layer
// gated attention over a cache, of which a quarter of each head turns.
//
//	x += Wo·(rms(delta(conv(Wqkv·n), Wb·n, Wa·n)) ∘ silu(Wz·n))       n = rms(x), in most layers
//	x += Wo·(attn(rope(rms(Wq·n)), rope(rms(Wk·n)), Wv·n) ∘ sigmoid(Wg·n))       in the others
//	x += mlp(n), or experts(n) + sigmoid(ws·n) mlp(n)                   n = rms(x)
//
// Files hold the gains as they multiply: converters have added the 1 of (1 + w), which the gain of a delta net's norm lacks. Files of
// qwen3next have the value heads of a key head side by side, those of the others have them Hk apart.
type qwen35 struct {
	qwen35Config
	Embed    compute.Weight     `tensor:"token_embd" shape:"Vocab,Width"`
	Layer    []qwen35Layer      `tensor:"blk" count:"Layers-Drafting"`
	OutNorm  compute.Vector     `tensor:"output_norm" shape:"Width"`
	Out      compute.Weight     `tensor:"output,token_embd" shape:"Vocab,Width"` // second name: tied to the embedding
	Drafters []qwen35Drafter    `tensor:"blk" from:"Layers-Drafting" count:"Drafting"`
	gates    compute.DeltaGates // what all delta nets have in common
}

type qwen35Config struct {
	Layers       int           `meta:"block_count"` // with those that draft
	Drafting     int           `meta:"nextn_predict_layers" default:"0"`
	Width        int           `meta:"embedding_length"`
	Hidden       int           `meta:"feed_forward_length" default:"0"`
	Vocab        int           `meta:"vocab_size" default:"rows(token_embd)"`
	Heads        int           `meta:"attention.head_count"`
	KVHeads      int           `meta:"attention.head_count_kv" default:"Heads"`
	HeadDim      int           `meta:"attention.key_length" default:"Width/Heads"`
	Eps          float32       `meta:"attention.layer_norm_rms_epsilon"`
	Rope         *compute.Rope `rope:"halves"`
	Period       int           `meta:"full_attention_interval" default:"4"`
	Recurrent    []bool        `meta:"attention.recurrent_layers" default:"Period"` // by layer
	Taps         int           `meta:"ssm.conv_kernel"`
	KeyHeads     int           `meta:"ssm.group_count"`
	ValueHeads   int           `meta:"ssm.time_step_rank"`
	StateDim     int           `meta:"ssm.state_size"`
	Experts      int           `meta:"expert_count" default:"0"`
	Chosen       int           `meta:"expert_used_count" default:"0"`
	ExpertHidden int           `meta:"expert_feed_forward_length" default:"0"`
	SharedHidden int           `meta:"expert_shared_feed_forward_length" default:"0"`
}

type qwen35Layer struct {
	MixerNorm compute.Vector  `tensor:"attn_norm" shape:"Width"`
	Delta     *gatedDeltaNet  `block:"gated delta net" when:"Recurrent"`
	Attention *gatedAttention `block:"gated attention" when:"1-Recurrent"`
	MLPNorm   compute.Vector  `tensor:"post_attention_norm,ffn_norm" shape:"Width"`
	qwen35MLP `one:"ffn_gate, or ffn_gate_exps with its router and its shared expert"`
}

type gatedDeltaNet struct {
	QKV   compute.Weight `tensor:"attn_qkv" shape:"2*KeyHeads+ValueHeads*StateDim,Width"`
	Z     compute.Weight `tensor:"attn_gate" shape:"ValueHeads*StateDim,Width"`
	Beta  compute.Weight `tensor:"ssm_beta,ssm_ba/0" shape:"ValueHeads,Width" groups:"KeyHeads"`
	Alpha compute.Weight `tensor:"ssm_alpha,ssm_ba/1" shape:"ValueHeads,Width" groups:"KeyHeads"`
	A     compute.Vector `tensor:"ssm_a." shape:"ValueHeads"`
	DT    compute.Vector `tensor:"ssm_dt.bias" shape:"ValueHeads"`
	Conv  compute.Vector `tensor:"ssm_conv1d" shape:"2*KeyHeads+ValueHeads*StateDim,Taps" transposed:"a tap after another"`
	Norm  compute.Vector `tensor:"ssm_norm" shape:"StateDim"`
	Out   compute.Weight `tensor:"ssm_out" shape:"Width,ValueHeads*StateDim"`
}

type gatedAttention struct {
	Q     compute.Weight `tensor:"attn_q" shape:"Heads*2*HeadDim,Width"` // of each head, the query and then the gate
	K     compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	V     compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width"`
	QNorm compute.Vector `tensor:"attn_q_norm" shape:"HeadDim"`
	KNorm compute.Vector `tensor:"attn_k_norm" shape:"HeadDim"`
	O     compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
}

// qwen35MLP is a gated multilayer perceptron, or many of which a row takes a few.
type qwen35MLP struct {
	Dense  *perceptron   `block:"perceptron"`
	Sparse *qwen35Sparse `block:"experts"`
}

type qwen35Sparse struct {
	mixture
	shared
	SharedOpen compute.Weight `tensor:"ffn_gate_inp_shexp" shape:"1,Width"` // how far the shared expert counts
}

func init() {
	for _, name := range []string{"qwen35", "qwen35moe"} {
		Register(name, func() Family { return new(qwen35) })
	}
	Register("qwen3next", func() Family { return &qwen35{gates: compute.DeltaGates{Grouped: true}} })
}

func (m *qwen35) State() state.Layout {
	layout := state.KV(len(m.Layer), m.KVHeads, m.HeadDim)
	for i := range layout {
		if m.Recurrent[i] {
			layout[i] = state.Layer{Delta: compute.DeltaShape{KeyHeads: m.KeyHeads, ValueHeads: m.ValueHeads, HeadDim: m.StateDim, Taps: m.Taps}}
		}
	}
	return layout
}

func (m *qwen35) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	return m.Logits(ops, b, m.Features(ops, b, s))
}

func (m *qwen35) Logits(ops compute.Ops, b *compute.Batch, features compute.Tensor) compute.Tensor {
	return ops.Logits(b, features, m.Out)
}

// Features are the rows' residual stream after the last layer, normalised: what logits are made of, and drafts.
func (m *qwen35) Features(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, 1) // the residual stream
	var n, y compute.Tensor       // its norm; a sublayer's output, not yet added to it
	for i := range m.Layer {
		ops.Layer(i)
		l := &m.Layer[i]
		x, n = ops.AddNorm(x, y, l.MixerNorm, m.Eps)
		if m.Recurrent[i] {
			y = m.delta(ops, b, n, l.Delta, s.Delta(i))
		} else {
			y = m.attention(ops, b, n, l.Attention, s.KV(i), 0)
		}
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = m.mlp(ops, n, &l.qwen35MLP)
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return n
}

// deltaEps is what all models of the family have under the root of their queries' and keys' norms, whatever their own Eps.
const deltaEps = 1e-6

func (m *qwen35) delta(ops compute.Ops, b *compute.Batch, n compute.Tensor, l *gatedDeltaNet, d compute.Delta) compute.Tensor {
	gates := m.gates
	gates.A, gates.DT, gates.Eps = l.A, l.DT, deltaEps
	qkv, z, beta, alpha := ops.MatMul(n, l.QKV), ops.MatMul(n, l.Z), ops.MatMul(n, l.Beta), ops.MatMul(n, l.Alpha)
	o := ops.GatedDelta(b, d, ops.CausalConv(b, d, qkv, l.Conv), beta, alpha, gates)
	return ops.MatMul(ops.GatedNorm(o, z, l.Norm, m.Eps), l.Out)
}

// attention of so many positions, of all if 0.
func (m *qwen35) attention(ops compute.Ops, b *compute.Batch, n compute.Tensor, l *gatedAttention, kv compute.KV, window int) compute.Tensor {
	gated, k, v := ops.MatMul(n, l.Q), ops.MatMul(n, l.K), ops.MatMul(n, l.V)
	q, k := ops.QKNormRope(b, gated, k, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope, QNorm: l.QNorm, KNorm: l.KNorm, Eps: m.Eps, Gated: true})
	ops.AppendKV(b, kv, k, v)
	return ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Gate: gated, Window: window}), l.O)
}

func (m *qwen35) mlp(ops compute.Ops, n compute.Tensor, l *qwen35MLP) compute.Tensor {
	if d := l.Dense; d != nil {
		return d.mlp(ops, n)
	}
	e := l.Sparse
	routes := ops.Router(n, e.Router, compute.Routing{Chosen: m.Chosen, Normalise: true})
	return ops.Experts(n, routes, e.experts(), compute.Shared{Gate: ops.MatMul(n, e.SharedOpen), Out: e.shared.forward(ops, n)})
}
