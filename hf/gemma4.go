package hf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"memra/gguf"
)

// Gemma 4. GGUF keeps how many pairs of a head turn in layers that see everything as divisors of frequencies, so large that the other
// pairs rest; router scales stand beside what they scale. Gains are as they multiply.

var gemma4Layer = with(gemma3Layer, map[string]string{
	"layer_scalar":                 "layer_output_scale.weight.",
	"router.proj":                  "ffn_gate_inp",
	"router.scale":                 "ffn_gate_inp.scale.",
	"router.per_expert_scale":      "ffn_down_exps.scale.",
	"experts.gate_up_proj":         "ffn_gate_up_exps.weight.",
	"experts.down_proj":            "ffn_down_exps.weight.",
	"pre_feedforward_layernorm_2":  "pre_ffw_norm_2",
	"post_feedforward_layernorm_1": "post_ffw_norm_1",
	"post_feedforward_layernorm_2": "post_ffw_norm_2",
	"per_layer_input_gate":         "inp_gate",
	"per_layer_projection":         "proj",
	"post_per_layer_input_norm":    "post_norm",
})

func init() {
	f := family{name: "gemma4", layer: gemma4Layer, characters: true, defaults: gemma4Defaults, config: gemma4Config}
	families["gemma4_text"] = &f
	unified := f
	unified.defaults = with(gemma4Defaults, map[string]any{"sliding_window": number("1024"), "max_position_embeddings": number("262144"), "hidden_size_per_layer_input": number("0")})
	families["gemma4_unified_text"] = &unified
	outside["model.embed_tokens_per_layer"] = "per_layer_token_embd"
	outside["model.per_layer_model_projection"] = "per_layer_model_proj"
	outside["model.per_layer_projection_norm"] = "per_layer_proj_norm"
}

var gemma4Defaults = map[string]any{
	"vocab_size": number("262144"), "hidden_size": number("2304"), "intermediate_size": number("9216"), "num_hidden_layers": number("30"),
	"num_attention_heads": number("8"), "num_key_value_heads": number("4"), "head_dim": number("256"), "max_position_embeddings": number("131072"),
	"sliding_window": number("512"), "hidden_size_per_layer_input": number("256"), "tie_word_embeddings": true,
}

func gemma4Config(t *translation) {
	t.dense()
	t.activation("hidden_activation", "gelu_pytorch_tanh")
	t.refuse("attention_bias", !t.bool("attention_bias", false), "false")
	t.refuse("use_bidirectional_attention", t.text("use_bidirectional_attention", "vision") == "vision", "vision, which leaves text as it is")
	layers := t.int("num_hidden_layers", -1)
	windowed := t.windowed(layers)
	if windowed == nil {
		windowed = make([]bool, min(layers, maxLayers))
		for i := range windowed {
			windowed[i] = (i+1)%6 != 0
		}
	}
	t.setInt("attention.sliding_window", "sliding_window", -1)
	t.set("attention.sliding_window_pattern", windowed)
	readers := t.setInt("attention.shared_kv_layers", "num_kv_shared_layers", 0)
	if part := t.setInt("embedding_length_per_layer_input", "hidden_size_per_layer_input", 0); part > 0 {
		rows := t.int("vocab_size", -1)
		t.refuse("vocab_size_per_layer_input", t.int("vocab_size_per_layer_input", rows) == rows, fmt.Sprintf("%d, the vocabulary", rows))
	}
	if c := t.float("final_logit_softcapping", 0); c != 0 {
		t.set("final_logit_softcapping", float32(c))
	}
	if t.bool("use_double_wide_mlp", false) && readers > 0 {
		hidden := slices.Repeat([]int32{int32(t.int("intermediate_size", -1))}, len(windowed))
		for i := max(0, len(hidden)-readers); i < len(hidden); i++ {
			hidden[i] *= 2
		}
		t.set("feed_forward_length", hidden)
	}
	if t.bool("enable_moe_block", false) {
		t.setInt("expert_count", "num_experts", -1)
		t.setInt("expert_used_count", "top_k_experts", -1)
		t.setInt("expert_feed_forward_length", "moe_intermediate_size", -1)
	}
	t.gemma4Rope(t.gemma4Heads(windowed))
}

// maxLayers bounds lists of a value a layer.
const maxLayers = 1 << 16

// gemma4Heads writes what heads the layers have, and returns the width of those in layers that see everything. Older configurations have
// a key for these; newer ones say what each layer has of its own.
func (t *translation) gemma4Heads(windowed []bool) (far int) {
	far, kv := t.int("global_head_dim", 512), t.kvHeads
	if t.bool("attention_k_eq_v", false) {
		kv = t.int("num_global_key_value_heads", kv)
	}
	own := t.object.object("per_layer_config")
	heads, uniform := make([]int32, len(windowed)), true
	first := true
	for i, near := range windowed {
		dim, n := far, kv
		if near {
			dim, n = t.headDim, t.kvHeads
		}
		if own.value != nil {
			o := own.object(strconv.Itoa(i))
			dim, n = o.int("head_dim", t.headDim), o.int("num_key_value_heads", t.kvHeads)
			for key := range o.value {
				if key != "head_dim" && key != "num_key_value_heads" {
					o.fail(key, "found %s, want head_dim and num_key_value_heads alone", kindOf(o.value[key]))
				}
			}
		}
		switch {
		case near && dim != t.headDim:
			own.fail(strconv.Itoa(i), "head_dim: found %d, want %d as in every windowed layer", dim, t.headDim)
		case !near && first:
			far, first = dim, false
		case !near && dim != far:
			own.fail(strconv.Itoa(i), "head_dim: found %d, want %d as in every other layer that sees everything", dim, far)
		}
		heads[i] = int32(n)
		uniform = uniform && n == t.kvHeads
	}
	if !uniform {
		t.set("attention.head_count_kv", heads)
	}
	if far > maxHead {
		t.fail("global_head_dim", "found %d, want at most %d", far, maxHead)
		far = 0
	}
	for _, what := range []string{"key", "value"} {
		t.set("attention."+what+"_length", uint32(far))
		t.set("attention."+what+"_length_swa", uint32(t.headDim))
	}
	return far
}

// gemma4Rope writes both rotary embeddings.
func (t *translation) gemma4Rope(far int) {
	p := t.object.object("rope_parameters")
	full, sliding := p.object("full_attention"), p.object("sliding_attention")
	if kind := ropeType(sliding); kind != "default" {
		sliding.fail("rope_type", "found %q, want default", clip(kind))
	}
	turning := 0.25
	if full.value != nil {
		turning = full.float("partial_rotary_factor", 1)
		if kind := ropeType(full); kind != "proportional" {
			full.fail("rope_type", "found %q, want proportional", clip(kind))
		}
	}
	factor := full.float("factor", 1)
	if !(turning >= 0 && turning <= 1) || !(factor > 0) {
		full.fail("partial_rotary_factor", "found %v with a factor of %v, want 0 to 1, and a positive factor", turning, factor)
		return
	}
	t.set("rope.freq_base", float32(full.float("rope_theta", 1e6)))
	t.set("rope.freq_base_swa", float32(sliding.float("rope_theta", 1e4)))
	t.set("rope.dimension_count", uint32(far))
	t.set("rope.dimension_count_swa", uint32(t.headDim))
	data := make([]byte, 0, 2*far)
	for i := range far / 2 {
		divisor := float32(factor)
		if i >= int(turning*float64(far)/2) {
			divisor = 1e30
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(divisor))
	}
	t.extra = append(t.extra, gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []int{far / 2}, Data: data})
}
