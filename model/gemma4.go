package model

import (
	"errors"
	"fmt"
	"math"

	"memra/compute"
	"memra/state"
)

// gemma4 is the decoder of Gemma 4, in all its sizes. As in Gemma 3, norms stand before and after each sublayer, and most layers are
// windowed; beyond that:
//
//	x += rms(Wo·attn(rope(rms(Wq·n)), rope(rms(Wk·n)), rms(Wv·n)))    n = rms(x); scores are not scaled
//	x += rms(Wd·(gelu(Wg·n) ∘ (Wu·n)))                                n = rms(x)
//	x += rms(Wp·(gelu(Wi·x) ∘ p[i]))                                  E2B and E4B: p[i] is the layer's part of the token
//	x *= s
//
// Layers that see everything have wider heads, fewer of keys, and turn the first quarter of their pairs; where they have no Wv, a
// value is its key before norm and turn. The last layers of E2B and E4B read the keys and values of the last one of their kind
// before them. In the mixture of experts a second sublayer runs beside the first, and both are normed once more:
//
//	x += rms(rms1(Wd·(gelu(Wg·n) ∘ (Wu·n))) + rms2(experts(rms2(x), chosen by Wr·(r ∘ rms(x))/sqrt(Width))))
type gemma4 struct {
	gemma4Config
	Embed   compute.Weight `tensor:"token_embd" shape:"Vocab,Width"`
	Tokens  *gemma4Tokens  `block:"per-layer embeddings" when:"Part"`
	Layer   []gemma4Layer  `tensor:"blk" count:"Layers"`
	OutNorm compute.Vector `tensor:"output_norm" shape:"Width"`
	Out     compute.Weight `tensor:"output,token_embd" shape:"Vocab,Width"` // second name: tied to the embedding
}

type gemma4Config struct {
	Layers   int     `meta:"block_count"`
	Width    int     `meta:"embedding_length"`
	Hidden   []int   `meta:"feed_forward_length"`
	Vocab    int     `meta:"vocab_size" default:"rows(token_embd)"`
	Heads    int     `meta:"attention.head_count"`
	KVHeads  []int   `meta:"attention.head_count_kv" default:"Heads"`
	FarDim   int     `meta:"attention.key_length"`     // of heads in layers that see everything
	NearDim  int     `meta:"attention.key_length_swa"` // of heads in windowed layers
	Eps      float32 `meta:"attention.layer_norm_rms_epsilon"`
	Window   int     `meta:"attention.sliding_window"`
	Windowed []bool  `meta:"attention.sliding_window_pattern" default:"6"`
	Readers  int     `meta:"attention.shared_kv_layers" default:"0"`       // the last layers, which read keys and values of others
	Part     int     `meta:"embedding_length_per_layer_input" default:"0"` // of a token's second embedding, a layer
	Cap      float32 `meta:"final_logit_softcapping" default:"0"`

	Experts      int `meta:"expert_count" default:"0"`
	Chosen       int `meta:"expert_used_count" default:"0"`
	ExpertHidden int `meta:"expert_feed_forward_length" default:"0"`

	Far  *compute.Rope `rope:"halves,divided" of:"FarDim"` // divisors so large that most pairs rest
	Near *compute.Rope `rope:"halves,windowed" of:"NearDim"`

	HeadDim []int   // by layer
	Own     []int   // 1 in layers that make keys and values
	Back    []int   // how many layers back those are that a layer reads; 0: its own
	Root    float32 // 1/sqrt(Width)
}

// gemma4Tokens is what a token says to each layer: its part of a second embedding, and of a projection of the first.
type gemma4Tokens struct {
	Embed compute.Weight `tensor:"per_layer_token_embd" shape:"Vocab,Layers*Part"`
	Proj  compute.Weight `tensor:"per_layer_model_proj" shape:"Layers*Part,Width"`
	Norm  compute.Vector `tensor:"per_layer_proj_norm" shape:"Part"`
}

type gemma4Layer struct {
	AttnNorm     compute.Vector `tensor:"attn_norm" shape:"Width"`
	Q            compute.Weight `tensor:"attn_q" shape:"Heads*HeadDim,Width"`
	QNorm        compute.Vector `tensor:"attn_q_norm" shape:"HeadDim"`
	Keys         *gemma4Keys    `block:"keys and values" when:"Own"`
	O            compute.Weight `tensor:"attn_output" shape:"Width,Heads*HeadDim"`
	PostAttnNorm compute.Vector `tensor:"post_attention_norm" shape:"Width"`
	MLPNorm      compute.Vector `tensor:"ffn_norm" shape:"Width"`
	Gate         compute.Weight `tensor:"ffn_gate" shape:"Hidden,Width"`
	Up           compute.Weight `tensor:"ffn_up" shape:"Hidden,Width"`
	Down         compute.Weight `tensor:"ffn_down" shape:"Width,Hidden"`
	Mixture      *gemma4Mixture `block:"experts" when:"Experts"`
	PostMLPNorm  compute.Vector `tensor:"post_ffw_norm" shape:"Width"`
	Token        *gemma4Token   `block:"per-layer embedding" when:"Part"`
	Scale        float32        `tensor:"layer_output_scale" shape:"1" default:"1"`
}

// gemma4Keys makes a layer's keys and values.
type gemma4Keys struct {
	K     compute.Weight `tensor:"attn_k" shape:"KVHeads*HeadDim,Width"`
	KNorm compute.Vector `tensor:"attn_k_norm" shape:"HeadDim"`
	V     compute.Weight `tensor:"attn_v" shape:"KVHeads*HeadDim,Width" optional:"values are keys"`
	VNorm compute.Vector `ones:"HeadDim"`
}

// gemma4Mixture is the sublayer beside the multilayer perceptron.
type gemma4Mixture struct {
	mixture
	RouterNorm compute.Vector `tensor:"ffn_gate_inp.scale" shape:"Width" times:"Root"`
	Scales     compute.Vector `tensor:"ffn_down_exps.scale" shape:"Experts"`
	Norm       compute.Vector `tensor:"pre_ffw_norm_2" shape:"Width"`
	PostNorm   compute.Vector `tensor:"post_ffw_norm_2" shape:"Width"`
	MLPNorm    compute.Vector `tensor:"post_ffw_norm_1" shape:"Width"` // of what it is added to
}

// gemma4Token brings a layer's part of the token into the residual stream.
type gemma4Token struct {
	In   compute.Weight `tensor:"inp_gate" shape:"Part,Width"`
	Out  compute.Weight `tensor:"proj" shape:"Width,Part"`
	Norm compute.Vector `tensor:"post_norm" shape:"Width"`
}

func init() { Register("gemma4", func() Family { return new(gemma4) }) }

// derive says what each layer's heads are, and whose keys it reads: those of the last layer of its kind that makes any.
func (c *gemma4Config) derive() error {
	var errs []error
	if c.Readers >= c.Layers {
		return fmt.Errorf("metadata gemma4.attention.shared_kv_layers: %d, want fewer than the %d layers", c.Readers, c.Layers)
	}
	if given := (c.Experts > 0) == (c.Chosen > 0) && (c.Experts > 0) == (c.ExpertHidden > 0); !given || c.Chosen > c.Experts {
		errs = append(errs, fmt.Errorf("metadata gemma4.expert_count, expert_used_count and expert_feed_forward_length: %d, %d and %d, want all or none, "+
			"and no more used than there are", c.Experts, c.Chosen, c.ExpertHidden))
	}
	last := map[bool]int{} // layer that makes keys, by whether it is windowed
	for i, windowed := range c.Windowed {
		dim, own, back := c.FarDim, 1, 0
		if windowed {
			dim = c.NearDim
		}
		if i < c.Layers-c.Readers {
			last[windowed] = i
		} else if from, ok := last[windowed]; ok {
			own, back = 0, i-from
			if c.KVHeads[i] != c.KVHeads[from] {
				errs = append(errs, fmt.Errorf("metadata gemma4.attention.head_count_kv: %d in layer %d, which reads the %d of layer %d", c.KVHeads[i], i, c.KVHeads[from], from))
			}
		} else {
			errs = append(errs, fmt.Errorf("metadata gemma4.attention.shared_kv_layers: %d: no layer before layer %d is of its kind (windowed %v) and makes keys", c.Readers, i, windowed))
		}
		if c.Heads%c.KVHeads[i] != 0 {
			errs = append(errs, fmt.Errorf("metadata gemma4.attention.head_count: %d, want a multiple of the %d key heads of layer %d", c.Heads, c.KVHeads[i], i))
		}
		c.HeadDim, c.Own, c.Back = append(c.HeadDim, dim), append(c.Own, own), append(c.Back, back)
	}
	c.Root = float32(1 / math.Sqrt(float64(c.Width)))
	return errors.Join(errs...)
}

// unused are the keys and values of layers that read another's: files have them from training.
func (c *gemma4Config) unused() (names []string) {
	for i, own := range c.Own {
		for _, name := range []string{"attn_k", "attn_k_norm", "attn_v"} {
			if own == 0 {
				names = append(names, fmt.Sprintf("blk.%d.%s.weight", i, name))
			}
		}
	}
	return names
}

func (m *gemma4) State() state.Layout {
	layout := make(state.Layout, m.Layers)
	for i := range layout {
		layout[i] = state.Layer{Heads: m.KVHeads[i], HeadDim: m.HeadDim[i], Back: m.Back[i]}
		if m.Windowed[i] {
			layout[i].Window = m.Window
		}
	}
	return layout
}

func (m *gemma4) Forward(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	x := ops.Embed(b, m.Embed, float32(math.Sqrt(float64(m.Width)))) // the residual stream
	parts := m.parts(ops, b, x)                                      // what the tokens say to all layers
	for i := range m.Layer {
		ops.Layer(i)
		l := &m.Layer[i]
		var n, y compute.Tensor
		x, n = ops.AddNorm(x, compute.Tensor{}, l.AttnNorm, m.Eps)
		y = ops.Norm(m.attention(ops, b, n, s.KV(i), i), l.PostAttnNorm, m.Eps)
		x, n = ops.AddNorm(x, y, l.MLPNorm, m.Eps)
		y = ops.MatMul(ops.GeGLU(ops.MatMul(n, l.Gate), ops.MatMul(n, l.Up)), l.Down)
		if e := l.Mixture; e != nil {
			y = ops.Add(ops.Norm(y, e.MLPNorm, m.Eps), ops.Norm(m.experts(ops, x, e), e.PostNorm, m.Eps), 1)
		}
		y = ops.Norm(y, l.PostMLPNorm, m.Eps)
		if t := l.Token; t != nil {
			x = ops.Add(x, y, 1)
			said := ops.GeGLU(ops.MatMul(x, t.In), ops.Columns(parts, i*m.Part, m.Part))
			y = ops.Norm(ops.MatMul(said, t.Out), t.Norm, m.Eps)
		}
		x = ops.Add(x, y, l.Scale)
	}
	_, n := ops.AddNorm(x, compute.Tensor{}, m.OutNorm, m.Eps)
	logits := ops.Logits(b, n, m.Out)
	if m.Cap > 0 {
		logits = ops.Scale(logits, 1, m.Cap)
	}
	return logits
}

// attention is layer i's, before the norm that follows: [rows, Width].
func (m *gemma4) attention(ops compute.Ops, b *compute.Batch, n compute.Tensor, kv compute.KV, i int) compute.Tensor {
	l, rope, attn := &m.Layer[i], m.Far, compute.Attn{Scale: 1} // queries and keys are normalised
	if m.Windowed[i] {
		rope, attn.Window = m.Near, m.Window
	}
	qk := compute.QK{HeadDim: m.HeadDim[i], Rope: rope, QNorm: l.QNorm, Eps: m.Eps}
	q := ops.MatMul(n, l.Q)
	if own := l.Keys; own == nil {
		q, _ = ops.QKNormRope(b, q, compute.Tensor{}, qk)
	} else {
		k := ops.MatMul(n, own.K)
		v := k // before its norm and its turn
		if !own.V.IsZero() {
			v = ops.MatMul(n, own.V)
		}
		v = ops.Norm(v, own.VNorm, m.Eps)
		qk.KNorm = own.KNorm
		q, k = ops.QKNormRope(b, q, k, qk)
		ops.AppendKV(b, kv, k, v)
	}
	return ops.MatMul(ops.Attention(b, q, kv, attn), l.O)
}

// experts is the mixture's sublayer on the residual stream, before the norm that follows.
func (m *gemma4) experts(ops compute.Ops, x compute.Tensor, e *gemma4Mixture) compute.Tensor {
	routes := ops.Router(ops.Norm(x, e.RouterNorm, m.Eps), e.Router, compute.Routing{Chosen: m.Chosen, Normalise: true, Scales: e.Scales})
	all := e.experts()
	all.Gating = compute.GeGLU
	return ops.Experts(ops.Norm(x, e.Norm, m.Eps), routes, all, compute.Shared{})
}

// parts is [rows, Layers*Part]: what each token says to each layer, by itself and by its first embedding. x is that, times sqrt(Width),
// which the norm undoes but for its epsilon.
//
//	p = (sqrt(Part)*embedding + rms(W·x/sqrt(Width))) / sqrt(2)
func (m *gemma4) parts(ops compute.Ops, b *compute.Batch, x compute.Tensor) compute.Tensor {
	t := m.Tokens
	if t == nil {
		return compute.Tensor{}
	}
	own := ops.Embed(b, t.Embed, float32(math.Sqrt(float64(m.Part))))
	first := ops.Norm(ops.MatMul(x, t.Proj), t.Norm, m.Eps*float32(m.Width))
	return ops.Add(own, first, float32(math.Sqrt(0.5)))
}
