package model_test

import (
	"strings"
	"testing"

	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
)

func TestOpenNamesEverythingThatIsWrong(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		name  string
		spoil func(m *tiny.Model)
		want  []string
	}{
		{"an unknown family", func(m *tiny.Model) { m.Metadata().Set("general.architecture", "mamba9") },
			[]string{`family "mamba9" is not supported`, "want one of ", "gemma3, "}},
		{"an unknown family near a known one", func(m *tiny.Model) { m.Metadata().Set("general.architecture", "qwen3x") },
			[]string{`family "qwen3x" is not supported`, "the nearest is qwen3"}},
		{"missing metadata", func(m *tiny.Model) { m.Metadata().Set("general.architecture", "gemma3") },
			[]string{"gemma3.block_count", "gemma3.attention.sliding_window"}},
		{"metadata of another kind", func(m *tiny.Model) { m.Metadata().Set("llama.block_count", "four") },
			[]string{"llama.block_count", "string"}},
		{"metadata out of range", func(m *tiny.Model) { m.Metadata().Set("llama.attention.head_count", uint32(0)) },
			[]string{"llama.attention.head_count", "0, want 1 to"}},
		{"two tensors missing and one mis-shaped", func(m *tiny.Model) {
			m.Remove("blk.2.attn_q.weight")
			m.Remove("blk.3.ffn_norm.weight")
			m.Remove("output_norm.weight")
			m.Add("output_norm.weight", gguf.F32, 64)
		}, []string{"tensor blk.2.attn_q.weight: missing, want shape [128 128] (Heads*HeadDim,Width)", "blk.3.ffn_norm.weight", "output_norm.weight: shape [64], want [128] (Width)"}},
		{"a tensor that the family does not know", func(m *tiny.Model) { m.Add("blk.0.attn_norm.bias", gguf.F32, 128) },
			[]string{"1 of 40 tensors are not known", "blk.0.attn_norm.bias"}},
		{"biases of another length", func(m *tiny.Model) { m.Add("blk.0.attn_q.bias", gguf.F32, 64); m.Add("blk.1.ffn_up.bias", gguf.F32, 1) },
			[]string{"tensor blk.0.attn_q.bias: shape [64], want [128], a value for each row of blk.0.attn_q.weight", "tensor blk.1.ffn_up.bias: shape [1]"}},
		{"a bias that the family needs", func(m *tiny.Model) {
			m.Metadata().Set("general.architecture", "qwen2")
			for key, value := range m.Metadata().All() {
				if own, ok := strings.CutPrefix(key, "llama."); ok {
					m.Metadata().Set("qwen2."+own, value)
				}
			}
		}, []string{"tensor blk.3.attn_k.bias: missing, want shape [64]"}},
		{"an unknown rotary scaling", func(m *tiny.Model) {
			m.Metadata().Set("llama.rope.scaling.type", "spiral")
			m.Metadata().Set("llama.rope.scaling.factor", float32(4))
		}, []string{`unknown rotary scaling "spiral"`}},
		{"a scale for each row", func(m *tiny.Model) { m.Add("blk.1.ffn_down.scale", gguf.F32, 128) },
			[]string{"blk.1.ffn_down.weight: tensor blk.1.ffn_down.scale: 128 values, want one for the whole matrix"}},
		{"a scale of nothing", func(m *tiny.Model) { m.Add("blk.1.ffn.scale", gguf.F32, 1) }, []string{"1 of 40 tensors are not known", "blk.1.ffn.scale"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := tiny.Llama(1, gguf.Q8_0)
			c.spoil(src)
			_, err := model.Open(src, d)
			if err == nil {
				t.Fatal("opened, want an error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error lacks %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestOutputIsTiedToTheEmbeddingWhereTheFileSaysSo(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	src := tiny.Llama(1, gguf.Q8_0)
	src.Remove("output.weight")
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	if m.Vocab != tiny.Vocab || m.Context != 4096 {
		t.Errorf("vocabulary %d and context %d, want %d and 4096", m.Vocab, m.Context, tiny.Vocab)
	}
}
