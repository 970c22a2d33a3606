package tiny

import (
	"fmt"

	"memra/gguf"
)

// Qwen35 is a tiny hybrid: three layers with gated delta nets, two value heads a key head, then one with gated attention, half of whose
// heads turns.
func Qwen35(seed uint64, format gguf.Type) *Model {
	const keyHeads, valueHeads, state, taps = 2, 4, 32, 4
	m := begin("qwen35", seed, map[string]any{"rope.freq_base": float32(1e6), "rope.dimension_count": uint32(dim / 2), "full_attention_interval": uint32(layers),
		"ssm.conv_kernel": uint32(taps), "ssm.state_size": uint32(state), "ssm.group_count": uint32(keyHeads), "ssm.time_step_rank": uint32(valueHeads),
		"ssm.inner_size": uint32(valueHeads * state)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	for i := range layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }
		m.Add(blk("attn_norm.weight"), gguf.F32, width)
		m.Add(blk("post_attention_norm.weight"), gguf.F32, width)
		if i == layers-1 {
			m.Add(blk("attn_q.weight"), narrow(format), 2*heads*dim, width)
			m.Add(blk("attn_k.weight"), narrow(format), kv*dim, width)
			m.Add(blk("attn_v.weight"), narrow(format), kv*dim, width)
			m.Add(blk("attn_q_norm.weight"), gguf.F32, dim)
			m.Add(blk("attn_k_norm.weight"), gguf.F32, dim)
			m.Add(blk("attn_output.weight"), narrow(format), width, heads*dim)
		} else {
			columns := (2*keyHeads + valueHeads) * state
			m.Add(blk("attn_qkv.weight"), narrow(format), columns, width)
			m.Add(blk("attn_gate.weight"), narrow(format), valueHeads*state, width)
			m.Add(blk("ssm_beta.weight"), narrow(format), valueHeads, width)
			m.Add(blk("ssm_alpha.weight"), narrow(format), valueHeads, width)
			m.Add(blk("ssm_a"), gguf.F32, valueHeads)
			for a := m.tensors[len(m.tensors)-1].Data; len(a) > 0; a = a[4:] {
				a[3] ^= 0x80 // decays are below zero
			}
			m.Add(blk("ssm_dt.bias"), gguf.F32, valueHeads)
			m.Add(blk("ssm_conv1d.weight"), gguf.F32, columns, taps)
			m.Add(blk("ssm_norm.weight"), gguf.F32, state)
			m.Add(blk("ssm_out.weight"), narrow(format), width, valueHeads*state)
		}
		m.Add(blk("ffn_gate.weight"), narrow(format), hidden, width)
		m.Add(blk("ffn_up.weight"), narrow(format), hidden, width)
		m.Add(blk("ffn_down.weight"), format, width, hidden)
	}
	m.Add("output_norm.weight", gguf.F32, width)
	return m
}
