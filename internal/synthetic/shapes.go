package synthetic

import (
	"fmt"
	"math"

	"memra/gguf"
)

// shape is a model's size, as its authors published it.
type shape struct {
	name, family                               string
	layers, width, hidden, heads, kvHeads, dim int
	vocab, context, window                     int // window: of windowed layers; 0: none
	eps, base                                  float32
	tied                                       bool    // the embedding is the output matrix
	scaling                                    float32 // of rotary positions, linear; 0: none
	hybrid                                     *hybrid // nil: attention in every layer
	gemma4                                     *gemma4 // nil: another family
	gptoss                                     *gptoss // nil: another family
}

// shapes are the models that can be made.
var shapes = []shape{
	{name: "Llama-3.1-8B", family: "llama", layers: 32, width: 4096, hidden: 14336, heads: 32, kvHeads: 8, dim: 128,
		vocab: 128256, context: 131072, eps: 1e-5, base: 5e5},
	{name: "Gemma-3-12B", family: "gemma3", layers: 48, width: 3840, hidden: 15360, heads: 16, kvHeads: 8, dim: 256,
		vocab: 262208, context: 131072, window: 1024, eps: 1e-6, base: 1e6, tied: true, scaling: 8},
	{name: "Gemma-3-27B", family: "gemma3", layers: 62, width: 5376, hidden: 21504, heads: 32, kvHeads: 16, dim: 128,
		vocab: 262208, context: 131072, window: 1024, eps: 1e-6, base: 1e6, tied: true, scaling: 8},
	{name: "SmolLM2-135M", family: "llama", layers: 30, width: 576, hidden: 1536, heads: 9, kvHeads: 3, dim: 64,
		vocab: 49152, context: 8192, eps: 1e-5, base: 1e5, tied: true},
	{name: "Gemma-3-270M", family: "gemma3", layers: 18, width: 640, hidden: 2048, heads: 4, kvHeads: 1, dim: 256,
		vocab: 262144, context: 32768, window: 512, eps: 1e-6, base: 1e6, tied: true},
}

func init() { shapes = append(append(append(shapes, hybrids...), gemma4s...), gptosses...) }

// metadata is what a file of the shape would say.
func (s *shape) metadata() *gguf.Metadata {
	m := new(gguf.Metadata)
	m.Set("general.architecture", s.family)
	m.Set("general.name", s.name)
	set := func(key string, value any) { m.Set(s.family+"."+key, value) }
	set("block_count", uint32(s.layers))
	set("context_length", uint32(s.context))
	set("embedding_length", uint32(s.width))
	if s.hidden > 0 {
		set("feed_forward_length", uint32(s.hidden))
	}
	set("attention.head_count", uint32(s.heads))
	set("attention.head_count_kv", uint32(s.kvHeads))
	set("attention.key_length", uint32(s.dim))
	set("attention.value_length", uint32(s.dim))
	set("attention.layer_norm_rms_epsilon", s.eps)
	set("rope.freq_base", s.base)
	if s.hybrid != nil {
		s.hybrid.metadata(set)
	}
	if s.gptoss != nil {
		s.gptoss.metadata(set, s.hidden)
	}
	if s.scaling > 0 {
		set("rope.scaling.type", "linear")
		set("rope.scaling.factor", s.scaling)
	}
	if s.window > 0 {
		set("attention.sliding_window", uint32(s.window))
	}
	if s.gemma4 != nil {
		s.gemma4Metadata(set)
	}
	return m
}

// role says what a tensor is for, which is what mixes go by.
type role int

const (
	gain     role = iota // of a norm, and what else is always F32
	decay                // of a state: F32, below zero
	divisors             // of rotary frequencies: F32
	kept                 // a matrix that llama-quantize leaves as it was: BF16
	weight               // any other matrix
	output               // the matrix that gives logits
	value                // makes an attention's values
	down                 // ends a gated layer
	expert               // a matrix for each of gpt-oss's experts
)

// tensor is a tensor before its format is chosen. layer counts from 0.
type tensor struct {
	name  string
	role  role
	layer int
	shape []int
}

// tensors lists what a file of the shape has.
func (s *shape) tensors() (list []tensor) {
	add := func(name string, r role, layer int, shape ...int) {
		list = append(list, tensor{name + ".weight", r, layer, shape})
	}
	embedding := weight
	if s.tied {
		embedding = output
	}
	add("token_embd", embedding, 0, s.vocab, s.width)
	add("output_norm", gain, 0, s.width)
	if !s.tied {
		add("output", output, 0, s.vocab, s.width)
	}
	if s.gemma4 != nil {
		list = append(list, s.gemma4Tensors()...)
	}
	for i := range s.layers {
		if s.gemma4 != nil {
			list = append(list, s.gemma4Layer(i)...)
			continue
		}
		if s.gptoss != nil {
			list = append(list, s.gptossLayer(i)...)
			continue
		}
		if s.hybrid != nil {
			list = append(list, s.hybridLayer(i)...)
			continue
		}
		block := func(name string, r role, shape ...int) { add(fmt.Sprintf("blk.%d.%s", i, name), r, i, shape...) }
		block("attn_norm", gain, s.width)
		block("attn_q", weight, s.heads*s.dim, s.width)
		block("attn_k", weight, s.kvHeads*s.dim, s.width)
		block("attn_v", value, s.kvHeads*s.dim, s.width)
		block("attn_output", weight, s.width, s.heads*s.dim)
		block("ffn_norm", gain, s.width)
		block("ffn_gate", weight, s.hidden, s.width)
		block("ffn_up", weight, s.hidden, s.width)
		block("ffn_down", down, s.width, s.hidden)
		if s.family == "gemma3" {
			block("attn_q_norm", gain, s.dim)
			block("attn_k_norm", gain, s.dim)
			block("post_attention_norm", gain, s.width)
			block("post_ffw_norm", gain, s.width)
		}
	}
	return list
}

// spread is the deviation of a matrix's values: a product with it keeps its size, about.
func (s *shape) spread() float64 { return 1 / math.Sqrt(float64(s.width)) }
