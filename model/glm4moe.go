package model

import (
	"fmt"

	"memra/compute"
	"memra/state"
)

// glm4moe is the sparse decoder of GLM-4.5 (arXiv:2508.06471): half of each head turns, the first layers are dense, experts are chosen
// by their sigmoid and a bias, and weighed by the sigmoid alone, normalised and scaled, beside a shared one that always counts.
//
//	x += Wo·attn(rope(Wq·n + bq), rope(Wk·n + bk), Wv·n + bv)                        n = rms(x), heads normalised in some models
//	x += sum_e w_e Wd_e·(silu(Wg_e·n) ∘ (Wu_e·n)) + shared(n)    e in top(Wr·n + b)  n = rms(x)
//
// Layers after the last, which draft, are not used.
type glm4moe struct {
	glm4moeConfig
	ends
	Layer []glm4moeLayer `tensor:"blk" count:"Layers-Drafting"`
	Draft struct{}       `unused:"blk" from:"Layers-Drafting" count:"Drafting"`
}

type glm4moeConfig struct {
	denseConfig
	Drafting int           `meta:"nextn_predict_layers" default:"0"`
	Rope     *compute.Rope `rope:"halves"`
	expertsConfig
	SharedCount int     `meta:"expert_shared_count" default:"1"`
	Groups      int     `meta:"expert_group_count" default:"1"`
	KeptGroups  int     `meta:"expert_group_used_count" default:"1"`
	DenseLayers int     `meta:"leading_dense_block_count" default:"0"`
	Scale       float32 `meta:"expert_weights_scale" default:"1"`
	Normalise   bool    `meta:"expert_weights_norm" default:"true"`

	Leading      []bool // by layer: it is dense
	SharedHidden int
}

type glm4moeLayer struct {
	AttnNorm compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q        compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width" bias:"optional"`
	K        compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	V        compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" bias:"optional"`
	O        compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	QNorm    compute.Vector `tensor:"attn_q_norm" shape:"HeadDim" optional:"GLM-4.5-Air has none"`
	KNorm    compute.Vector `tensor:"attn_k_norm" shape:"HeadDim" optional:"GLM-4.5-Air has none"`
	MLPNorm  compute.Vector `tensor:"post_attention_norm,ffn_norm" shape:"Width"`
	Dense    *perceptron    `block:"perceptron" when:"Leading"`
	Sparse   *glm4moeSparse `block:"experts" when:"1-Leading"`
}

type glm4moeSparse struct {
	mixture
	shared
	Choice compute.Vector `tensor:"exp_probs_b.bias" shape:"Experts"` // by which experts are chosen, beside their scores
}

func init() { Register("glm4moe", func() Family { return new(glm4moe) }) }

func (m *glm4moe) derive() error {
	m.SharedHidden = m.SharedCount * m.ExpertHidden
	m.Leading = make([]bool, m.Layers)
	for i := range m.Leading {
		m.Leading[i] = i < m.DenseLayers
	}
	if m.Experts%m.Groups != 0 || m.KeptGroups > m.Groups || m.KeptGroups*m.Experts/m.Groups < m.Chosen {
		return fmt.Errorf("metadata glm4moe.expert_group_used_count and expert_group_count: %d and %d, want some of groups of equal size of the %d experts, "+
			"with at least the %d that a row uses", m.KeptGroups, m.Groups, m.Experts, m.Chosen)
	}
	return nil
}

func (m *glm4moe) State() state.Layout { return state.KV(len(m.Layer), m.KVHeads, m.HeadDim) }

func (m *glm4moe) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
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
		if l.Dense != nil {
			y = l.Dense.mlp(ops, n)
		} else {
			y = m.sparse(ops, n, l.Sparse)
		}
	}
	_, n = ops.AddNorm(x, y, m.OutNorm, m.Eps)
	return ops.Logits(b, n, m.Out)
}

func (m *glm4moe) sparse(ops compute.Ops, n compute.Tensor, l *glm4moeSparse) compute.Tensor {
	r := ops.Router(n, l.Router, compute.Routing{Chosen: m.Chosen, Score: compute.Sigmoid, ChoiceBias: l.Choice,
		Groups: m.Groups, KeptGroups: m.KeptGroups, Normalise: m.Normalise, Scale: m.Scale})
	return ops.Experts(n, r, l.experts(), compute.Shared{Out: l.shared.forward(ops, n)})
}
