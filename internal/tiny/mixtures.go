package tiny

import (
	"fmt"

	"memra/gguf"
)

const experts, chosen = 8, 3

// Qwen3MoE is a tiny mixture: three experts of eight, weighed by the softmax over them.
func Qwen3MoE(seed uint64, format gguf.Type) *Model {
	m := begin("qwen3moe", seed, map[string]any{"rope.freq_base": float32(1e6), "expert_count": uint32(experts), "expert_used_count": uint32(chosen),
		"expert_feed_forward_length": uint32(hidden)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	for i := range layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }
		m.attention(blk, format)
		m.Add(blk("attn_q_norm.weight"), gguf.F32, dim)
		m.Add(blk("attn_k_norm.weight"), gguf.F32, dim)
		m.Add(blk("ffn_norm.weight"), gguf.F32, width)
		m.mixture(blk, format)
	}
	m.Add("output_norm.weight", gguf.F32, width)
	return m
}

// GPTOSS is a tiny gpt-oss: biases, sinks, clamped gates, every other layer windowed.
func GPTOSS(seed uint64, format gguf.Type) *Model {
	m := begin("gpt-oss", seed, map[string]any{"rope.freq_base": float32(1.5e5), "expert_count": uint32(experts), "expert_used_count": uint32(chosen),
		"expert_feed_forward_length": uint32(hidden), "attention.sliding_window": uint32(Window)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	for i := range layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }
		m.attention(blk, format)
		m.Add(blk("attn_q.bias"), gguf.F32, heads*dim)
		m.Add(blk("attn_k.bias"), gguf.F32, kv*dim)
		m.Add(blk("attn_v.bias"), gguf.F32, kv*dim)
		m.Add(blk("attn_output.bias"), gguf.F32, width)
		m.Add(blk("attn_sinks.weight"), gguf.F32, heads)
		m.Add(blk("post_attention_norm.weight"), gguf.F32, width)
		m.mixture(blk, format)
		m.Add(blk("ffn_gate_inp.bias"), gguf.F32, experts)
		m.Add(blk("ffn_gate_exps.bias"), gguf.F32, experts, hidden)
		m.Add(blk("ffn_up_exps.bias"), gguf.F32, experts, hidden)
		m.Add(blk("ffn_down_exps.bias"), gguf.F32, experts, width)
	}
	m.Add("output_norm.weight", gguf.F32, width)
	return m
}

func (m *Model) attention(blk func(name string) string, format gguf.Type) {
	m.Add(blk("attn_norm.weight"), gguf.F32, width)
	m.Add(blk("attn_q.weight"), narrow(format), heads*dim, width)
	m.Add(blk("attn_k.weight"), narrow(format), kv*dim, width)
	m.Add(blk("attn_v.weight"), narrow(format), kv*dim, width)
	m.Add(blk("attn_output.weight"), narrow(format), width, heads*dim)
}

func (m *Model) mixture(blk func(name string) string, format gguf.Type) {
	m.Add(blk("ffn_gate_inp.weight"), gguf.F32, experts, width)
	m.Add(blk("ffn_gate_exps.weight"), narrow(format), experts, hidden, width)
	m.Add(blk("ffn_up_exps.weight"), narrow(format), experts, hidden, width)
	m.Add(blk("ffn_down_exps.weight"), format, experts, width, hidden)
}
