package hf

// The kinds of models with experts.

// mixtureOf names a router and experts, and what stands beside them.
func mixtureOf(base map[string]string, router, experts string) map[string]string {
	return with(base, map[string]string{
		router:                 "ffn_gate_inp",
		experts + ".gate_proj": "ffn_gate_exps",
		experts + ".up_proj":   "ffn_up_exps",
		experts + ".down_proj": "ffn_down_exps",
	})
}

var qwen3moeLayer = mixtureOf(qwen3Layer, "mlp.gate", "mlp.experts.*")

var qwen2moeLayer = with(mixtureOf(llamaLayer, "mlp.gate", "mlp.experts.*"), map[string]string{
	"mlp.shared_expert.gate_proj": "ffn_gate_shexp",
	"mlp.shared_expert.up_proj":   "ffn_up_shexp",
	"mlp.shared_expert.down_proj": "ffn_down_shexp",
	"mlp.shared_expert_gate":      "ffn_gate_inp_shexp",
})

var mixtralLayer = with(llamaLayer, map[string]string{
	"block_sparse_moe.gate":         "ffn_gate_inp",
	"block_sparse_moe.experts.*.w1": "ffn_gate_exps",
	"block_sparse_moe.experts.*.w3": "ffn_up_exps",
	"block_sparse_moe.experts.*.w2": "ffn_down_exps",
})

var glm4moeLayer = with(mixtureOf(qwen3Layer, "mlp.gate", "mlp.experts.*"), map[string]string{
	"post_attention_layernorm":         "post_attention_norm",
	"mlp.gate.e_score_correction_bias": "exp_probs_b.bias.",
	"mlp.shared_experts.gate_proj":     "ffn_gate_shexp",
	"mlp.shared_experts.up_proj":       "ffn_up_shexp",
	"mlp.shared_experts.down_proj":     "ffn_down_shexp",
})

var gptossLayer = with(mixtureOf(llamaLayer, "mlp.router", "mlp.experts"), map[string]string{
	"post_attention_layernorm": "post_attention_norm",
	"self_attn.sinks":          "attn_sinks.weight.",
})

// experts sets what all mixtures have; width is the name of an expert's hidden width, "" where it is the dense one.
func (t *translation) experts(width string) {
	count := "num_experts"
	for _, name := range []string{"num_local_experts", "n_routed_experts"} {
		if _, ok := t.get(name); ok {
			count = name
		}
	}
	t.setInt("expert_count", count, -1)
	t.setInt("expert_used_count", "num_experts_per_tok", -1)
	if width != "" {
		t.setInt("expert_feed_forward_length", width, -1)
	}
}

// everyLayer refuses models of which some layers have no experts.
func (t *translation) everyLayer() {
	t.refuse("decoder_sparse_step", t.int("decoder_sparse_step", 1) == 1, "1")
	t.refuse("mlp_only_layers", len(t.ints("mlp_only_layers")) == 0, "none")
}

var qwen2moeDefaults = map[string]any{"norm_topk_prob": false, "hidden_act": "silu"}

func qwen2moeConfig(t *translation) {
	qwenConfig(t)
	t.everyLayer()
	t.experts("moe_intermediate_size")
	t.refuse("norm_topk_prob", !t.bool("norm_topk_prob", false), "false")
	t.setInt("expert_shared_feed_forward_length", "shared_expert_intermediate_size", -1)
}

func qwen3moeConfig(t *translation) {
	qwenConfig(t)
	t.everyLayer()
	t.experts("moe_intermediate_size")
	t.refuse("norm_topk_prob", t.bool("norm_topk_prob", false), "true")
}

func mixtralConfig(t *translation) {
	mistralConfig(t)
	t.experts("")
}

var olmoeDefaults = map[string]any{"rms_norm_eps": number("1e-5")}

func olmoeConfig(t *translation) {
	qwenConfig(t)
	t.experts("")
	t.refuse("norm_topk_prob", !t.bool("norm_topk_prob", false), "false")
	t.refuse("clip_qkv", false, "null")
}

var glm4moeDefaults = map[string]any{"partial_rotary_factor": number("0.5"), "rms_norm_eps": number("1e-5")}

func glm4moeConfig(t *translation) {
	t.dense()
	t.activation("hidden_act", "silu")
	t.rope("rope", t.ropeParameters(), true)
	t.experts("moe_intermediate_size")
	t.setInt("expert_shared_count", "n_shared_experts", 1)
	t.setInt("leading_dense_block_count", "first_k_dense_replace", 1)
	t.setInt("expert_group_count", "n_group", 1)
	t.setInt("expert_group_used_count", "topk_group", 1)
	t.set("expert_gating_func", uint32(2)) // a sigmoid
	t.set("expert_weights_scale", float32(t.float("routed_scaling_factor", 1)))
	t.set("expert_weights_norm", t.bool("norm_topk_prob", true))
}

var gptossDefaults = map[string]any{"rms_norm_eps": number("1e-5"), "head_dim": number("64"), "sliding_window": number("128")}

func gptossConfig(t *translation) {
	t.dense()
	t.activation("hidden_act", "silu")
	t.refuse("swiglu_limit", t.float("swiglu_limit", 7) == 7, "7")
	t.experts("intermediate_size")
	t.setInt("attention.sliding_window", "sliding_window", -1)
	t.rope("rope", t.ropeParameters(), false)
}
