package model_test

import (
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
)

func TestGemma4ThatContradictsItselfIsRefusedByName(t *testing.T) {
	set := func(key string, value any) func(*tiny.Model) {
		return func(m *tiny.Model) { m.Metadata().Set("gemma4."+key, value) }
	}
	for _, c := range []struct {
		name  string
		spoil func(m *tiny.Model)
		want  []string
	}{
		{"layers that all read another's keys", set("attention.shared_kv_layers", uint32(4)), []string{"gemma4.attention.shared_kv_layers: 4, want fewer than the 4 layers"}},
		{"readers of a kind that makes no keys", set("attention.shared_kv_layers", uint32(3)),
			[]string{"shared_kv_layers: 3: no layer before layer 1 is of its kind (windowed false)", "no layer before layer 3"}},
		{"readers of other heads", set("attention.head_count_kv", []int32{2, 1, 2, 2}), []string{"head_count_kv: 2 in layer 3, which reads the 1 of layer 1"}},
		{"heads that keys do not divide", set("attention.head_count_kv", []int32{3, 1, 3, 1}), []string{"head_count: 4, want a multiple of the 3 key heads of layer 0", "of layer 2"}},
		{"heads of too few layers", set("attention.head_count_kv", []int32{2, 1}), []string{"head_count_kv: 2 values, want one for each of 4 layers"}},
		{"a layer without a perceptron", set("feed_forward_length", []int32{256, 256, 0, 256}), []string{"feed_forward_length: 0 in layer 2, want 1 to"}},
		{"experts of which none is taken", set("expert_count", uint32(8)), []string{"expert_count, expert_used_count and expert_feed_forward_length: 8, 0 and 0, want all or none"}},
		{"more turning than a head has", set("rope.dimension_count_swa", uint32(64)), []string{"gemma4.rope.dimension_count_swa: 64, want at most the head's width 32"}},
		{"no divisors", func(m *tiny.Model) { m.Remove("rope_freqs.weight") }, []string{"rope_freqs.weight: missing, want a divisor for each rotary pair"}},
		{"keys, and what depends on them, missing", func(m *tiny.Model) {
			m.Remove("blk.1.attn_k.weight")
			m.Remove("blk.0.attn_k_norm.weight")
			m.Remove("blk.3.proj.weight")
		}, []string{"blk.1.attn_k.weight: missing, want shape [64 128] (KVHeads*HeadDim,Width)", "blk.0.attn_k_norm.weight: missing, want shape [32]", "blk.3.proj.weight: missing, want shape [128 32]"}},
		{"a scale of two values", func(m *tiny.Model) {
			m.Remove("blk.2.layer_output_scale.weight")
			m.Add("blk.2.layer_output_scale.weight", gguf.F32, 2)
		}, []string{"blk.2.layer_output_scale.weight: shape [2], want [1]"}},
		{"per-layer embeddings that the metadata does not know", set("embedding_length_per_layer_input", uint32(0)), []string{"tensors are not known to the family, such as per_layer_token_embd.weight"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := tiny.Gemma4(1, gguf.Q8_0)
			c.spoil(src)
			_, err := model.Check(src)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

// Files have keys and values of readers from training; a layer's scale may be left out. Neither changes what is computed.
func TestGemma4TakesFilesWithUnusedKeysAndWithoutScales(t *testing.T) {
	src := tiny.Gemma4(1, gguf.Q8_0)
	src.Add("blk.2.attn_k.weight", gguf.Q8_0, 64, 128)
	src.Add("blk.3.attn_k_norm.weight", gguf.F32, 64)
	src.Add("blk.2.attn_v.weight", gguf.Q8_0, 64, 128)
	src.Remove("blk.1.layer_output_scale.weight")
	if _, err := model.Check(src); err != nil {
		t.Fatal(err)
	}
	src.Add("blk.0.attn_k.bias", gguf.F32, 64)
	if _, err := model.Check(src); err == nil || !strings.Contains(err.Error(), "blk.0.attn_k.bias") {
		t.Errorf("a bias that nothing adds: %v", err)
	}
}
