package model_test

import (
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
)

func TestAHybridNamesWhatContradictsItsLayers(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(m *tiny.Model)
		want  []string
	}{
		{"attention where a delta net should be", func(m *tiny.Model) { m.Metadata().Set("qwen35.full_attention_interval", uint32(2)) },
			[]string{"tensor blk.1.attn_q.weight: missing, want shape [256 128]", "not known to the family, such as blk.1."}},
		{"a delta net without its decay and its convolution", func(m *tiny.Model) {
			m.Remove("blk.0.ssm_a")
			m.Remove("blk.2.ssm_conv1d.weight")
		}, []string{"tensor blk.0.ssm_a: missing, want shape [4] (ValueHeads)", "blk.2.ssm_conv1d.weight: missing, want shape [256 4]"}},
		{"no perceptron, and no experts", func(m *tiny.Model) {
			for _, name := range []string{"gate", "up", "down"} {
				m.Remove("blk.1.ffn_" + name + ".weight")
			}
		}, []string{"tensors of blk.1: missing, want ffn_gate, or ffn_gate_exps"}},
		{"half a perceptron", func(m *tiny.Model) { m.Remove("blk.1.ffn_up.weight") }, []string{"tensor blk.1.ffn_up.weight: missing"}},
		{"fewer value heads than the metadata say", func(m *tiny.Model) { m.Metadata().Set("qwen35.ssm.time_step_rank", uint32(2)) },
			[]string{"blk.0.attn_qkv.weight: shape [256 128], want [192 128]", "blk.0.ssm_a: shape [4], want [2]"}},
		{"a layer that drafts, of which nothing is there", func(m *tiny.Model) {
			m.Metadata().Set("qwen35.block_count", uint32(5))
			m.Metadata().Set("qwen35.nextn_predict_layers", uint32(1))
		}, []string{"blk.4.nextn.eh_proj", "blk.4.attn_norm"}},
		{"a period for too few layers", func(m *tiny.Model) { m.Metadata().Set("qwen35.attention.recurrent_layers", []bool{true}) },
			[]string{"qwen35.attention.recurrent_layers: 1 values, want one for each of 4 layers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := tiny.Qwen35(1, gguf.Q8_0)
			c.spoil(src)
			_, err := model.Check(src)
			if err == nil {
				t.Fatal("bound, want an error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
		})
	}
	if _, err := model.Check(tiny.Qwen35(1, gguf.Q8_0)); err != nil {
		t.Error(err)
	}
}
