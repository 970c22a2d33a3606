package synthetic

import (
	"encoding/binary"
	"fmt"
	"math"
)

// gemma4 is what a shape has beyond Gemma 3's: layers of two kinds of heads, and what only some sizes have.
type gemma4 struct {
	farDim, farHeads              int  // of layers that see everything: width of heads, heads of keys
	values                        bool // they have matrices for values; else these are keys
	readers                       int  // last layers, which read keys of others
	part                          int  // of a token's second embedding, a layer
	experts, chosen, expertHidden int
	cap                           float32 // of logits
}

// sixth is the layers of which the last sees everything.
const sixth = 6

var gemma4s = []shape{
	{name: "Gemma-4-E4B", family: "gemma4", layers: 42, width: 2560, hidden: 10240, heads: 8, kvHeads: 2, dim: 256,
		vocab: 262144, context: 131072, window: 512, eps: 1e-6, base: 1e6, tied: true, gemma4: &gemma4{farDim: 512, farHeads: 2, values: true, readers: 18, part: 256, cap: 30}},
	{name: "Gemma-4-12B", family: "gemma4", layers: 48, width: 3840, hidden: 15360, heads: 16, kvHeads: 8, dim: 256,
		vocab: 262144, context: 262144, window: 1024, eps: 1e-6, base: 1e6, tied: true, gemma4: &gemma4{farDim: 512, farHeads: 1, cap: 30}},
	{name: "Gemma-4-26B-A4B", family: "gemma4", layers: 30, width: 2816, hidden: 2112, heads: 16, kvHeads: 8, dim: 256,
		vocab: 262144, context: 262144, window: 1024, eps: 1e-6, base: 1e6, tied: true,
		gemma4: &gemma4{farDim: 512, farHeads: 2, experts: 128, chosen: 8, expertHidden: 704, cap: 30}},
	{name: "Gemma-4-31B", family: "gemma4", layers: 60, width: 5376, hidden: 21504, heads: 32, kvHeads: 16, dim: 256,
		vocab: 262144, context: 262144, window: 1024, eps: 1e-6, base: 1e6, tied: true, gemma4: &gemma4{farDim: 512, farHeads: 4, cap: 30}},
}

func (s *shape) gemma4Metadata(set func(key string, value any)) {
	g := s.gemma4
	kv, windowed := make([]int32, s.layers), make([]bool, s.layers)
	for i := range kv {
		kv[i], windowed[i] = int32(s.kvHeads), (i+1)%sixth != 0
		if !windowed[i] {
			kv[i] = int32(g.farHeads)
		}
	}
	set("attention.head_count_kv", kv)
	set("attention.sliding_window_pattern", windowed)
	set("attention.key_length", uint32(g.farDim))
	set("attention.value_length", uint32(g.farDim))
	set("attention.key_length_swa", uint32(s.dim))
	set("attention.value_length_swa", uint32(s.dim))
	set("attention.shared_kv_layers", uint32(g.readers))
	set("embedding_length_per_layer_input", uint32(g.part))
	set("final_logit_softcapping", g.cap)
	if g.experts > 0 {
		set("expert_count", uint32(g.experts))
		set("expert_used_count", uint32(g.chosen))
		set("expert_feed_forward_length", uint32(g.expertHidden))
	}
}

// gemma4Tensors lists what stands before the layers.
func (s *shape) gemma4Tensors() []tensor {
	g := s.gemma4
	list := []tensor{{"rope_freqs.weight", divisors, 0, []int{g.farDim / 2}}}
	if g.part > 0 {
		list = append(list, tensor{"per_layer_token_embd.weight", output, 0, []int{s.vocab, s.layers * g.part}},
			tensor{"per_layer_model_proj.weight", kept, 0, []int{s.layers * g.part, s.width}}, tensor{"per_layer_proj_norm.weight", gain, 0, []int{g.part}})
	}
	return list
}

// gemma4Layer lists a layer.
func (s *shape) gemma4Layer(i int) (list []tensor) {
	g := s.gemma4
	add := func(name string, r role, shape ...int) {
		list = append(list, tensor{fmt.Sprintf("blk.%d.%s", i, name), r, i, shape})
	}
	dim, kv, far := s.dim, s.kvHeads, (i+1)%sixth == 0
	if far {
		dim, kv = g.farDim, g.farHeads
	}
	for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
		add(name+".weight", gain, s.width)
	}
	add("layer_output_scale.weight", gain, 1)
	add("attn_q.weight", weight, s.heads*dim, s.width)
	add("attn_q_norm.weight", gain, dim)
	if i < s.layers-g.readers {
		add("attn_k.weight", weight, kv*dim, s.width)
		add("attn_k_norm.weight", gain, dim)
		if g.values || !far {
			add("attn_v.weight", value, kv*dim, s.width)
		}
	}
	add("attn_output.weight", weight, s.width, s.heads*dim)
	add("ffn_gate.weight", weight, s.hidden, s.width)
	add("ffn_up.weight", weight, s.hidden, s.width)
	add("ffn_down.weight", down, s.width, s.hidden)
	if g.experts > 0 {
		for _, name := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
			add(name+".weight", gain, s.width)
		}
		add("ffn_gate_inp.weight", gain, g.experts, s.width) // float32, as routers are kept
		add("ffn_gate_inp.scale", gain, s.width)
		add("ffn_gate_up_exps.weight", weight, g.experts, 2*g.expertHidden, s.width)
		add("ffn_down_exps.weight", down, g.experts, s.width, g.expertHidden)
		add("ffn_down_exps.scale", gain, g.experts)
	}
	if g.part > 0 {
		add("inp_gate.weight", weight, g.part, s.width)
		add("proj.weight", weight, s.width, g.part)
		add("post_norm.weight", gain, s.width)
	}
	return list
}

// quarters are divisors of frequencies that let the first quarter of the pairs turn.
func quarters(n int) func() ([]byte, error) {
	return func() ([]byte, error) {
		data := make([]byte, 0, 4*n)
		for i := range n {
			divisor := float32(1e30)
			if i < n/4 {
				divisor = 1
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(divisor))
		}
		return data, nil
	}
}
