package hf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// Sizes are those of the models named. Keys and values are those that llama.cpp's converter writes.
func TestHybridConfigurationsBecomeTheirMetadata(t *testing.T) {
	delta := []string{"ssm.conv_kernel 4", "ssm.state_size 128", "ssm.group_count 16", "rope.dimension_count 64", "rope.freq_base 1e+07", "full_attention_interval 4"}
	for _, c := range []struct {
		name, config string
		want         []string
	}{
		{"Qwen3.5 9B, with pictures, most left to defaults", `{"model_type":"qwen3_5","vision_config":{},"text_config":{"model_type":"qwen3_5_text",
			"mtp_num_hidden_layers":1,"rope_parameters":{"mrope_interleaved":true,"mrope_section":[11,11,10],"rope_type":"default","rope_theta":10000000,"partial_rotary_factor":0.25}}}`,
			[]string{"block_count 32", "embedding_length 4096", "feed_forward_length 12288", "attention.head_count 16", "attention.head_count_kv 4", "attention.key_length 256",
				"ssm.time_step_rank 32", "ssm.inner_size 4096", "rope.dimension_sections [11 11 10 0]"}},
		{"Qwen3.6 35B-A3B", `{"model_type":"qwen3_5_moe_text","layer_types":["linear_attention","full_attention"],"num_hidden_layers":2,
			"rope_parameters":{"rope_type":"default","rope_theta":10000000,"partial_rotary_factor":0.25}}`,
			[]string{"block_count 2", "embedding_length 2048", "attention.head_count_kv 2", "ssm.time_step_rank 32", "expert_count 256", "expert_used_count 8",
				"expert_feed_forward_length 512", "expert_shared_feed_forward_length 512", "attention.recurrent_layers [true false]", "rope.dimension_sections [11 11 10 0]"}},
		{"Qwen3-Next 80B-A3B", `{"model_type":"qwen3_next","rope_theta":10000000,"norm_topk_prob":true,"decoder_sparse_step":1,"mlp_only_layers":[]}`,
			[]string{"block_count 48", "feed_forward_length 5632", "expert_count 512", "expert_used_count 10", "ssm.time_step_rank 32"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := translate(t, c.config)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for key, value := range tr.meta.All() {
				got = append(got, strings.TrimPrefix(fmt.Sprintf("%s %v", key, value), tr.family.name+"."))
			}
			for _, want := range append(delta, c.want...) {
				if !slices.Contains(got, want) {
					t.Errorf("lacks %s; has\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func TestSettingsThatHybridsDoNotComputeAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ setting, want string }{
		{`"linear_value_head_dim":64`, "linear_value_head_dim: found 64, want 128, the width of a key"},
		{`"linear_num_value_heads":24`, "linear_num_value_heads: found 24 value heads, 16 key heads"},
		{`"linear_num_key_heads":0`, "0 key heads"},
		{`"attention_bias":true`, "attention_bias: found true"},
		{`"layer_types":["linear_attention"]`, "layer_types: found 1, want one for each of 32 layers"},
		{`"num_hidden_layers":1,"layer_types":["sliding_attention"]`, `layer_types: found "sliding_attention"`},
	} {
		_, err := translate(t, `{"model_type":"qwen3_5_text",`+c.setting+`}`)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to mention %q", c.setting, err, c.want)
		}
	}
}

// Rows and columns of value heads, by hand: two key heads of two value heads each, heads two wide.
func TestValueHeadsOfAKeyHeadStandApart(t *testing.T) {
	tr := &translation{family: families["qwen3_5_text"], delta: deltaSizes{layers: 1, keyHeads: 2, valueHeads: 4, dim: 2, taps: 1}}
	matrix := func(rows, width int) weight {
		v := make([]float32, rows*width)
		for i := range v {
			v[i] = float32(i / width * 100)
			v[i] += float32(i % width)
		}
		return ofFloats(weight{Tensor: gguf.Tensor{Shape: []int{rows, width}}}, v)
	}
	for _, c := range []struct {
		name string
		in   weight
		want []float32
	}{
		{"blk.0.ssm_beta.weight", matrix(4, 1), []float32{0, 200, 100, 300}},
		{"blk.0.attn_gate.weight", matrix(8, 1), []float32{0, 100, 400, 500, 200, 300, 600, 700}},
		{"blk.0.attn_qkv.weight", matrix(16, 1), []float32{0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1200, 1300, 1000, 1100, 1400, 1500}},
		{"blk.0.ssm_out.weight", matrix(2, 8), []float32{0, 1, 4, 5, 2, 3, 6, 7, 100, 101, 104, 105, 102, 103, 106, 107}},
	} {
		parts, err := tr.hybridParts(c.name, c.in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := vector(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if _, err := tr.hybridParts("blk.0.attn_gate.weight", matrix(7, 1)); err == nil || !strings.Contains(err.Error(), "want 8 rows") {
		t.Errorf("seven rows of gates: %v", err)
	}
}
