package tiny

import (
	"encoding/binary"
	"fmt"
	"math"

	"memra/gguf"
)

// Gemma4 is a tiny gemma4 with per-layer embeddings: a windowed layer, one that sees everything with wider heads, of which a value is
// its key, and one of either kind that reads their keys. Its logits are capped.
func Gemma4(seed uint64, format gguf.Type) *Model {
	const far, farHeads, part, readers = 2 * dim, 1, 32, 2
	m := begin("gemma4", seed, map[string]any{"rope.freq_base": float32(1e6), "attention.sliding_window": uint32(Window),
		"attention.sliding_window_pattern": []bool{true, false, true, false}, "attention.head_count_kv": []int32{kv, farHeads, kv, farHeads},
		"attention.key_length": uint32(far), "attention.key_length_swa": uint32(dim), "attention.shared_kv_layers": uint32(readers),
		"embedding_length_per_layer_input": uint32(part), "final_logit_softcapping": float32(30)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	m.Add("per_layer_token_embd.weight", narrow(format), Vocab, layers*part)
	m.Add("per_layer_model_proj.weight", narrow(format), layers*part, width)
	m.Add("per_layer_proj_norm.weight", gguf.F32, part)
	m.tensors = append(m.tensors, resting(far/2))
	for i := range layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		d, n := dim, kv
		if i%2 == 1 {
			d, n = far, farHeads
		}
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"} {
			m.Add(blk(name), gguf.F32, width)
		}
		m.Add(blk("layer_output_scale"), gguf.F32, 1)
		m.Add(blk("attn_q"), narrow(format), heads*d, width)
		m.Add(blk("attn_q_norm"), gguf.F32, d)
		if i < layers-readers {
			m.Add(blk("attn_k"), narrow(format), n*d, width)
			m.Add(blk("attn_k_norm"), gguf.F32, d)
		}
		if i == 0 {
			m.Add(blk("attn_v"), narrow(format), n*d, width)
		}
		m.Add(blk("attn_output"), narrow(format), width, heads*d)
		m.Add(blk("ffn_gate"), narrow(format), hidden, width)
		m.Add(blk("ffn_up"), narrow(format), hidden, width)
		m.Add(blk("ffn_down"), format, width, hidden)
		m.Add(blk("inp_gate"), narrow(format), part, width)
		m.Add(blk("proj"), short(format), width, part)
	}
	m.Add("output_norm.weight", gguf.F32, width)
	return m
}

// resting are divisors of frequencies that let the first quarter of the pairs turn.
func resting(pairs int) gguf.Tensor {
	t := gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []int{pairs}}
	for i := range pairs {
		divisor := float32(1e30)
		if i < pairs/4 {
			divisor = 1
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(divisor))
	}
	return t
}

// short is a format that rows of 32 values can have.
func short(t gguf.Type) gguf.Type {
	if values, _ := t.Block(); values > 32 {
		return gguf.Q5_0
	}
	return t
}
