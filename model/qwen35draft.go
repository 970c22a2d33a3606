package model

import (
	"memra/compute"
	"memra/state"
)

// Drafter is a family that may come with layers that guess the token after the next (multi-token prediction, arXiv:2404.19737).
type Drafter interface {
	Family

	// DraftState says what the guessing layer remembers of each position; nil: the file has none.
	DraftState() state.Layout

	// Features are what Forward makes its logits of, [rows, FeatureWidth], and Logits are what it makes of them.
	Features(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor
	Logits(ops compute.Ops, b *compute.Batch, features compute.Tensor) compute.Tensor
	FeatureWidth() int

	// Remember stores of the rows what Draft would, and guesses nothing.
	Remember(ops compute.Ops, b *compute.Batch, hidden compute.Tensor, s *state.View)

	// Draft guesses. Row r of b holds the token that follows the one of which hidden[r] came, and that one's position; s is of DraftState.
	// It returns a hidden row for each row of b, which may stand for Features in a further guess, and whose product with Guesses is logits: as
	// good as a matmul makes them, without the care that Logits takes.
	Draft(ops compute.Ops, b *compute.Batch, hidden compute.Tensor, s *state.View) (next compute.Tensor)
	Guesses() compute.Weight
}

// qwen35Drafter is a layer with attention that sees what the model has made of a token, and the token after it.
//
//	u = We·rms(embed(next)) + Wh·rms(hidden)      u += attention(rms(u))      u += mlp(rms(u))      hidden' = rms(u)
type qwen35Drafter struct {
	TokenNorm  compute.Vector  `tensor:"nextn.enorm" shape:"Width"`
	HiddenNorm compute.Vector  `tensor:"nextn.hnorm" shape:"Width"`
	Token      compute.Weight  `tensor:"nextn.eh_proj/left" shape:"Width,Width"`
	Hidden     compute.Weight  `tensor:"nextn.eh_proj/right" shape:"Width,Width"`
	MixerNorm  compute.Vector  `tensor:"attn_norm" shape:"Width"`
	Attention  *gatedAttention `block:"gated attention" when:"1"`
	MLPNorm    compute.Vector  `tensor:"post_attention_norm,ffn_norm" shape:"Width"`
	qwen35MLP  `one:"ffn_gate, or ffn_gate_exps with its router and its shared expert"`
	OutNorm    compute.Vector `tensor:"nextn.shared_head_norm" shape:"Width" optional:"it is the model's"`
	Out        compute.Weight `tensor:"nextn.shared_head_head" shape:"Vocab,Width" optional:"it is the model's"`
	Embed      compute.Weight `tensor:"nextn.embed_tokens" shape:"Vocab,Width" optional:"it is the model's"`
}

func (m *qwen35) DraftState() state.Layout { return state.KV(len(m.Drafters), m.KVHeads, m.HeadDim) }

func (m *qwen35) FeatureWidth() int { return m.Width }

// draftWindow is how many positions a guess looks back at: what is further away, the hidden row knows of. The built-in model's layer was taught with
// so many (tools/builtin/drafts.py); before, when it was taught with all, it guessed one of 300 tokens less with 512 of 1,500 to 2,000, and 14 with 256.
const draftWindow = 512

func (m *qwen35) Draft(ops compute.Ops, b *compute.Batch, hidden compute.Tensor, s *state.View) (next compute.Tensor) {
	l, norm := &m.Drafters[0], m.OutNorm
	if !l.OutNorm.IsZero() {
		norm = l.OutNorm
	}
	x, n := ops.AddNorm(m.guessing(ops, b, hidden), compute.Tensor{}, l.MixerNorm, m.Eps)
	y := m.attention(ops, b, n, l.Attention, s.KV(0), draftWindow)
	x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
	_, next = ops.AddNorm(x, m.mlp(ops, n, &l.qwen35MLP), norm, m.Eps)
	return next
}

func (m *qwen35) Guesses() compute.Weight {
	if out := m.Drafters[0].Out; !out.IsZero() {
		return out
	}
	return m.Out
}

func (m *qwen35) Remember(ops compute.Ops, b *compute.Batch, hidden compute.Tensor, s *state.View) {
	l := &m.Drafters[0]
	n := ops.Norm(m.guessing(ops, b, hidden), l.MixerNorm, m.Eps)
	k, v := ops.MatMul(n, l.Attention.K), ops.MatMul(n, l.Attention.V)
	k, _ = ops.QKNormRope(b, k, compute.Tensor{}, compute.QK{HeadDim: m.HeadDim, Rope: m.Rope, QNorm: l.Attention.KNorm, Eps: m.Eps})
	ops.AppendKV(b, s.KV(0), k, v)
}

// guessing is the residual stream that the layer begins with.
func (m *qwen35) guessing(ops compute.Ops, b *compute.Batch, hidden compute.Tensor) compute.Tensor {
	l, embed := &m.Drafters[0], m.Embed
	if !l.Embed.IsZero() {
		embed = l.Embed
	}
	token, hidden := ops.Norm(ops.Embed(b, embed, 1), l.TokenNorm, m.Eps), ops.Norm(hidden, l.HiddenNorm, m.Eps)
	return ops.Add(ops.MatMul(token, l.Token), ops.MatMul(hidden, l.Hidden), 1) // side by side
}
