package hf

import (
	"maps"
	"slices"
	"strings"

	"memra/gguf"
	"memra/safetensors"
)

// family says how the folders of a kind of model are translated.
type family struct {
	name       string                  // GGUF's (general.architecture)
	layer      map[string]string       // names of a layer's tensors, without the layer's prefix and .weight or .bias
	neighbours bool                    // GGUF pairs neighbours in rotary embeddings: rows of queries and keys move
	gains      bool                    // norms hold w of (1 + w)
	fused      func(w weight) []weight // names what has GGUF's parts in one; nil: nothing has
	ramp       bool                    // yarn begins and ends its ramp where the paper has it, not at whole pairs
	characters bool                    // of the vocabulary, which is BPE over characters, GGUF has merges and no scores
	defaults   map[string]any          // of config.json, where the model's class has others than most
	config     func(t *translation)
	rename     func(t *translation, name string) string                      // of a tensor, before it is translated; nil: none
	parts      func(t *translation, name string, w weight) ([]weight, error) // GGUF's tensors of one; nil: see adapt
}

// families is every kind of model that is translated, by model_type in config.json.
var families = map[string]*family{
	"llama":       {name: "llama", layer: llamaLayer, neighbours: true, config: llamaConfig},
	"mistral":     {name: "llama", layer: llamaLayer, neighbours: true, config: mistralConfig},
	"qwen2":       {name: "qwen2", layer: llamaLayer, config: qwenConfig},
	"qwen3":       {name: "qwen3", layer: qwen3Layer, config: qwenConfig},
	"qwen2_moe":   {name: "qwen2moe", layer: qwen2moeLayer, defaults: qwen2moeDefaults, config: qwen2moeConfig},
	"qwen3_moe":   {name: "qwen3moe", layer: qwen3moeLayer, config: qwen3moeConfig},
	"mixtral":     {name: "llama", layer: mixtralLayer, neighbours: true, config: mixtralConfig},
	"olmoe":       {name: "olmoe", layer: qwen3moeLayer, defaults: olmoeDefaults, config: olmoeConfig},
	"glm4_moe":    {name: "glm4moe", layer: glm4moeLayer, defaults: glm4moeDefaults, config: glm4moeConfig},
	"gpt_oss":     {name: "gpt-oss", layer: gptossLayer, fused: fusedGPTOSS, ramp: true, defaults: gptossDefaults, config: gptossConfig},
	"gemma3_text": {name: "gemma3", layer: gemma3Layer, gains: true, defaults: gemma3Defaults, config: gemma3Config},
}

// outside is the tensors that are in no layer.
var outside = map[string]string{"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

var llamaLayer = map[string]string{
	"input_layernorm":          "attn_norm",
	"self_attn.q_proj":         "attn_q",
	"self_attn.k_proj":         "attn_k",
	"self_attn.v_proj":         "attn_v",
	"self_attn.o_proj":         "attn_output",
	"post_attention_layernorm": "ffn_norm",
	"mlp.gate_proj":            "ffn_gate",
	"mlp.up_proj":              "ffn_up",
	"mlp.down_proj":            "ffn_down",
}

var qwen3Layer = with(llamaLayer, map[string]string{
	"self_attn.q_norm": "attn_q_norm",
	"self_attn.k_norm": "attn_k_norm",
})

var gemma3Layer = with(qwen3Layer, map[string]string{
	"post_attention_layernorm":   "post_attention_norm",
	"pre_feedforward_layernorm":  "ffn_norm",
	"post_feedforward_layernorm": "post_ffw_norm",
})

func with[T any](base, more map[string]T) map[string]T {
	m := maps.Clone(base)
	maps.Copy(m, more)
	return m
}

// kinds lists the model types, for messages.
func kinds() string { return strings.Join(slices.Sorted(maps.Keys(families)), ", ") }

// translation is a config.json on its way to metadata.
type translation struct {
	object
	family  *family
	meta    *gguf.Metadata
	layers  int
	heads   int
	kvHeads int
	headDim int
	rotated int // leading values of a head that turn
	delta   deltaSizes
	file    *safetensors.File // nil: a configuration alone
	extra   []gguf.Tensor
}

// has reports whether the checkpoint has a tensor.
func (t *translation) has(name string) bool {
	if t.file == nil {
		return false
	}
	_, ok := t.file.Tensor(name)
	return ok
}

func (t *translation) set(key string, value any) { t.meta.Set(t.family.name+"."+key, value) }

// setInt copies an integer; a negative fallback says that it must be there.
func (t *translation) setInt(key, from string, fallback int) int {
	n := t.int(from, fallback)
	t.set(key, uint32(n))
	return n
}

// refuse notes a setting that changes what a model computes and that its family here does not know.
func (t *translation) refuse(key string, known bool, want string) {
	if v, ok := t.get(key); ok && !known {
		t.fail(key, "found %s, want %s: the family %s computes nothing else here", kindOf(v), want, t.family.name)
	}
}

// maxHead bounds the width of a head, of which tables are made.
const maxHead = 1 << 16

// dense sets what all decoders have.
func (t *translation) dense() {
	t.layers = t.setInt("block_count", "num_hidden_layers", -1)
	t.setInt("context_length", "max_position_embeddings", 2048)
	width := t.setInt("embedding_length", "hidden_size", -1)
	t.setInt("feed_forward_length", "intermediate_size", -1)
	t.heads = t.setInt("attention.head_count", "num_attention_heads", -1)
	t.kvHeads = t.setInt("attention.head_count_kv", "num_key_value_heads", t.heads)
	if t.heads == 0 {
		t.fail("num_attention_heads", "found 0, want at least 1")
		return
	}
	if t.headDim = t.int("head_dim", width/t.heads); t.headDim > maxHead {
		t.fail("head_dim", "found %d, want at most %d", t.headDim, maxHead)
		t.headDim = 0
	}
	if _, ok := t.get("head_dim"); ok {
		t.set("attention.key_length", uint32(t.headDim))
		t.set("attention.value_length", uint32(t.headDim))
	}
	t.set("attention.layer_norm_rms_epsilon", float32(t.float("rms_norm_eps", 1e-6)))
}

func (t *translation) activation(key, want string) {
	t.refuse(key, t.text(key, want) == want, want)
}

func llamaConfig(t *translation) {
	t.dense()
	t.set("vocab_size", uint32(t.int("vocab_size", -1)))
	t.activation("hidden_act", "silu")
	t.rope("rope", t.ropeParameters(), true)
}

// mistralConfig is llama's, but for windows: the first Mistral attends to 4096 positions. llama.cpp has no word for that.
func mistralConfig(t *translation) {
	llamaConfig(t)
	if window := t.int("sliding_window", 0); window > 0 {
		t.set("attention.sliding_window", uint32(window))
	}
}

func qwenConfig(t *translation) {
	t.dense()
	t.activation("hidden_act", "silu")
	t.refuse("use_sliding_window", !t.bool("use_sliding_window", false), "false")
	t.rope("rope", t.ropeParameters(), false)
}

var gemma3Defaults = map[string]any{
	"hidden_size": number("2304"), "intermediate_size": number("9216"), "num_hidden_layers": number("26"),
	"num_attention_heads": number("8"), "num_key_value_heads": number("4"), "head_dim": number("256"),
	"max_position_embeddings": number("131072"), "rms_norm_eps": number("1e-6"), "sliding_window": number("4096"),
	"query_pre_attn_scalar": number("256"), "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
	"vocab_size": number("262208"),
}

func gemma3Config(t *translation) {
	t.dense()
	t.activation("hidden_activation", "gelu_pytorch_tanh")
	for _, key := range []string{"final_logit_softcapping", "attn_logit_softcapping"} {
		t.refuse(key, false, "null")
	}
	t.refuse("use_bidirectional_attention", !t.bool("use_bidirectional_attention", false), "false")
	layers := t.int("num_hidden_layers", -1)
	t.scoresByHead(layers, 62)

	t.setInt("attention.sliding_window", "sliding_window", -1)
	if windowed := t.windowed(layers); windowed != nil {
		t.set("attention.sliding_window_pattern", windowed)
	}
	p := t.object.object("rope_parameters")
	full, sliding := p.object("full_attention"), p.object("sliding_attention")
	if full.value == nil && sliding.value == nil { // an older config.json: all but the windowed layers' base is for the others
		full = t.ropeParameters()
	}
	if _, ok := full.get("rope_theta"); !ok {
		full = full.plus("rope_theta", t.float("rope_theta", 1e6))
	}
	if _, ok := sliding.get("rope_theta"); !ok {
		sliding = sliding.plus("rope_theta", t.float("rope_local_base_freq", 1e4))
	}
	t.rope("rope", full, false)
	if kind := ropeType(sliding); kind != "default" {
		sliding.fail("rope_type", "found %q, want default: windowed layers are never scaled", kind)
	}
	t.set("rope.freq_base_swa", float32(sliding.float("rope_theta", 1e4)))
}

// windowed says for each layer whether it is windowed; nil where every sixth is not, as GGUF assumes.
func (t *translation) windowed(layers int) []bool {
	types := t.texts("layer_types")
	period := t.int("sliding_window_pattern", 6)
	if types != nil && len(types) != layers {
		t.fail("layer_types", "found %d, want one for each of %d layers", len(types), layers)
		return nil
	}
	if period == 0 {
		t.fail("sliding_window_pattern", "found 0, want at least 1")
		return nil
	}
	usual := true
	out := make([]bool, min(layers, 1<<16))
	for i := range out {
		out[i] = (i+1)%period != 0
		if types != nil {
			out[i] = types[i] == "sliding_attention"
			if !out[i] && types[i] != "full_attention" {
				t.fail("layer_types", "found %q, want full_attention or sliding_attention", clip(types[i]))
				return nil
			}
		}
		usual = usual && out[i] == ((i+1)%6 != 0)
	}
	if usual {
		return nil
	}
	return out
}
