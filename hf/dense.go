package hf

import (
	"encoding/binary"
	"math"

	"memra/gguf"
)

// Dense decoders beyond llama's nearest relatives: Gemma 2, Phi 3, Granite, SmolLM 3.

func init() {
	families["gemma2"] = &family{name: "gemma2", layer: gemma3Layer, gains: true, defaults: gemma2Defaults, config: gemma2Config}
	families["phi3"] = &family{name: "phi3", layer: phi3Layer, config: phi3Config}
	families["granite"] = &family{name: "granite", layer: llamaLayer, neighbours: true, config: graniteConfig}
	families["smollm3"] = &family{name: "smollm3", layer: llamaLayer, neighbours: true, defaults: smollm3Defaults, config: smollm3Config}
}

var phi3Layer = with(llamaLayer, map[string]string{
	"self_attn.qkv_proj": "attn_qkv",
	"mlp.gate_up_proj":   "ffn_up", // gate above up
})

var gemma2Defaults = with(gemma3Defaults, map[string]any{
	"max_position_embeddings": number("8192"), "vocab_size": number("256000"), "attn_logit_softcapping": number("50"),
	"final_logit_softcapping": number("30"),
})

// gemma2Config is gemma3's, but for caps, one rotary embedding of base 10000, and windows in every other layer.
func gemma2Config(t *translation) {
	t.dense()
	t.activation("hidden_activation", "gelu_pytorch_tanh")
	t.refuse("use_bidirectional_attention", !t.bool("use_bidirectional_attention", false), "false")
	layers := t.int("num_hidden_layers", -1)
	t.scoresByHead(layers, 46)
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		limit := t.float(key, 0)
		if !(limit > 0) {
			t.fail(key, "found %v, want a positive number: GGUF has no word for no cap", limit)
		}
		t.set(key, float32(limit))
	}
	t.setInt("attention.sliding_window", "sliding_window", -1)
	for i, kind := range t.texts("layer_types") {
		if want := []string{"sliding_attention", "full_attention"}[i%2]; kind != want {
			t.fail("layer_types", "found %q for layer %d, want %s: every other layer is windowed, from the first on", clip(kind), i, want)
			break
		}
	}
	if p := t.ropeParameters(); ropeType(p) != "default" || p.float("rope_theta", 10000) != 10000 {
		t.rope("rope", p, false)
	}
}

// scoresByHead refuses scores that are not scaled by the root of the head's width, or in the model of `odd` layers, by that of its
// width per head.
func (t *translation) scoresByHead(layers, odd int) {
	scalar := t.headDim
	if layers == odd && t.heads > 0 {
		scalar = t.int("hidden_size", -1) / t.heads
	}
	t.refuse("query_pre_attn_scalar", t.int("query_pre_attn_scalar", scalar) == scalar, number(scalar).String()+", the width of a head")
}

func phi3Config(t *translation) {
	t.dense()
	t.activation("hidden_act", "silu")
	t.set("attention.sliding_window", uint32(t.int("sliding_window", 0)))
	p := t.ropeParameters()
	original := p.int("original_max_position_embeddings", 4096)
	t.set("rope.scaling.original_context_length", uint32(original))
	switch kind := ropeType(p); kind {
	case "longrope", "su", "yarn": // yarn was longrope's name in the first configurations
		t.longRope(p, original)
	default:
		t.rope("rope", p, true)
	}
}

// longRope writes the divisors of every rotary pair, for texts within the original context and beyond it, and what sharpens attention.
func (t *translation) longRope(p object, original int) {
	partial := p.float("partial_rotary_factor", 1)
	t.rotated = int(float64(t.headDim) * partial)
	t.set("rope.freq_base", float32(p.float("rope_theta", 10000)))
	t.set("rope.dimension_count", uint32(t.rotated))
	for _, which := range []string{"long", "short"} {
		factors := p.floats(which + "_factor")
		if len(factors) != t.rotated/2 {
			p.fail(which+"_factor", "found %d numbers, want %d, one for each rotary pair", len(factors), t.rotated/2)
			return
		}
		data := make([]byte, 0, 4*len(factors))
		for _, f := range factors {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(f)))
		}
		t.extra = append(t.extra, gguf.Tensor{Name: "rope_factors_" + which + ".weight", Type: gguf.F32, Shape: []int{len(factors)}, Data: data})
	}
	sharpen := 1.0
	if scale := float64(t.int("max_position_embeddings", 2048)) / float64(original); scale > 1 {
		sharpen = math.Sqrt(1 + math.Log(scale)/math.Log(float64(original)))
	}
	t.set("rope.scaling.attn_factor", float32(p.float("attention_factor", sharpen)))
}

func graniteConfig(t *translation) {
	llamaConfig(t)
	for _, m := range []struct{ key, from string }{
		{"attention.scale", "attention_multiplier"}, {"embedding_scale", "embedding_multiplier"},
		{"residual_scale", "residual_multiplier"}, {"logit_scale", "logits_scaling"},
	} {
		v := t.float(m.from, 1)
		if v == 0 {
			t.fail(m.from, "found 0, want another number")
		}
		t.set(m.key, float32(v))
	}
}

var smollm3Defaults = map[string]any{"rope_theta": number("2e6")}

func smollm3Config(t *translation) {
	llamaConfig(t)
	t.refuse("use_sliding_window", !t.bool("use_sliding_window", false), "false")
	t.refuse("no_rope_layer_interval", t.int("no_rope_layer_interval", 4) == 4, "4")
	for i, turns := range t.ints("no_rope_layers") {
		if want := min(1, (i+1)%4); turns != want {
			t.fail("no_rope_layers", "found %d for layer %d, want %d: every fourth layer does not turn", turns, i, want)
			break
		}
	}
}
