package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
	"memra/tokenizer"
)

// The sizes are those of the models named, cut to few layers. Keys and values are those that llama.cpp's converter writes.
func TestGemma4ConfigurationsBecomeTheirMetadata(t *testing.T) {
	const rope = `"rope_parameters":{"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":"proportional"},
		"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}}`
	for _, c := range []struct {
		name, config string
		want         []string
		turning      int // pairs of a head that turn in layers that see everything
	}{
		{"E4B, with pictures and sound", `{"model_type":"gemma4","vision_config":{},"audio_config":{},"text_config":{"model_type":"gemma4_text","hidden_size":2560,
			"intermediate_size":10240,"num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"global_head_dim":512,
			"num_global_key_value_heads":null,"attention_k_eq_v":false,"num_kv_shared_layers":1,"final_logit_softcapping":30.0,"sliding_window":512,
			"use_bidirectional_attention":"vision","layer_types":["sliding_attention","full_attention","full_attention"],` + rope + `}}`,
			[]string{"block_count 3", "embedding_length 2560", "feed_forward_length 10240", "attention.head_count_kv 2", "attention.key_length 512", "attention.key_length_swa 256",
				"attention.value_length 512", "attention.value_length_swa 256", "attention.sliding_window 512", "attention.sliding_window_pattern [true false false]",
				"attention.shared_kv_layers 1", "embedding_length_per_layer_input 256", "final_logit_softcapping 30", "rope.freq_base 1e+06", "rope.freq_base_swa 10000",
				"rope.dimension_count 512", "rope.dimension_count_swa 256"}, 64},
		{"26B-A4B, as transformers 5 saves it", `{"model_type":"gemma4_text","hidden_size":2816,"intermediate_size":2112,"num_hidden_layers":2,"num_attention_heads":16,
			"num_key_value_heads":8,"head_dim":256,"attention_k_eq_v":true,"enable_moe_block":true,"num_experts":128,"top_k_experts":8,"moe_intermediate_size":704,
			"hidden_size_per_layer_input":0,"sliding_window":1024,"layer_types":["sliding_attention","full_attention"],"per_layer_config":{"1":{"head_dim":512,
			"num_key_value_heads":2}},` + rope + `}`,
			[]string{"attention.head_count_kv [8 2]", "attention.key_length 512", "embedding_length_per_layer_input 0", "expert_count 128", "expert_used_count 8",
				"expert_feed_forward_length 704", "attention.shared_kv_layers 0"}, 64},
		{"12B, which has no tower, most left to defaults", `{"model_type":"gemma4_unified","text_config":{"model_type":"gemma4_unified_text","num_hidden_layers":6,
			"attention_k_eq_v":true,"num_global_key_value_heads":1}}`,
			[]string{"context_length 262144", "attention.sliding_window 1024", "attention.head_count_kv [4 4 4 4 4 1]", "embedding_length_per_layer_input 0",
				"attention.sliding_window_pattern [true true true true true false]"}, 64},
		{"E2B, whose readers have wider perceptrons", `{"model_type":"gemma4_text","num_hidden_layers":4,"intermediate_size":6144,"use_double_wide_mlp":true,
			"num_kv_shared_layers":2,"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"]}`,
			[]string{"feed_forward_length [6144 6144 12288 12288]"}, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := translate(t, c.config)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for key, value := range tr.meta.All() {
				got[strings.TrimPrefix(fmt.Sprintf("%s %v", key, value), "gemma4.")] = true
			}
			for _, want := range c.want {
				if !got[want] {
					t.Errorf("no metadata %s", want)
				}
			}
			if len(tr.extra) != 1 || tr.extra[0].Name != "rope_freqs.weight" {
				t.Fatalf("tensors %v, want rope_freqs.weight alone", tr.extra)
			}
			divisors, err := vector(weight{Tensor: tr.extra[0]})
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range divisors {
				if want := map[bool]float32{true: 1, false: 1e30}[i < c.turning]; d != want {
					t.Fatalf("divisor %d of %d: %v, want %v", i, len(divisors), d, want)
				}
			}
		})
	}
}

func TestSettingsThatGemma4DoesNotComputeAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ name, more, want string }{
		{"an encoder", `"use_bidirectional_attention":"all"`, `use_bidirectional_attention: found "all", want vision`},
		{"biases", `"attention_bias":true`, "attention_bias: found true, want false"},
		{"a second embedding of fewer tokens", `"vocab_size_per_layer_input":100`, "vocab_size_per_layer_input: found 100, want 262144, the vocabulary"},
		{"experts that nobody counted", `"enable_moe_block":true`, "num_experts: is missing"},
		{"windowed layers of two widths", `"per_layer_config":{"0":{"head_dim":128},"5":{"head_dim":512}}`, "head_dim: found 128, want 256 as in every windowed layer"},
		{"other layers of two widths", `"num_hidden_layers":12,"per_layer_config":{"5":{"head_dim":512},"11":{"head_dim":384}}`, "head_dim: found 384, want 512"},
		{"a window of its own", `"per_layer_config":{"5":{"sliding_window":4}}`, "sliding_window: found 4, want head_dim and num_key_value_heads alone"},
		{"a scaling", `"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":4}}`, `rope_type: found "yarn", want proportional`},
		{"scaled windowed layers", `"rope_parameters":{"sliding_attention":{"rope_type":"linear","factor":4}}`, `rope_type: found "linear", want default`},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := `{"model_type":"gemma4_text","num_hidden_layers":6,` + c.more + `}`
			if strings.Contains(c.more, "num_hidden_layers") {
				config = `{"model_type":"gemma4_text",` + c.more + `}`
			}
			if _, err := translate(t, config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// The file is llama.cpp's converter's, of the same folder.
func TestGemma4VocabulariesAreWhatLlamaCppsConverterWrites(t *testing.T) {
	g, err := golden.LoadTiny("../model/testdata/tiny/gemma4-dense")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := g.Unpack(folder); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, g.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, want := range file.Meta.All() {
		if types, ok := want.([]int32); ok && key == "tokenizer.ggml.token_type" {
			types[3] = int32(tokenizer.Control) // <unk>, which tokenizer.json calls special; the converter asks tokenizer_config.json, which does not
		}
		if got, ok := f.Metadata().Get(key); strings.HasPrefix(key, "tokenizer.ggml.") && (!ok || !reflect.DeepEqual(got, want)) {
			t.Errorf("%s: %v, llama.cpp's converter has %v", key, got, want)
		}
	}
	own, err := f.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	written, err := tokenizer.FromGGUF(f.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"In the morning\n\n the  others \u00e0 \u4e16", "<bos>in", "", g.Prompts[2].Text} {
		a, b := own.Encode(text, tokenizer.Options{}), written.Encode(text, tokenizer.Options{})
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%q: %v in the folder, %v in the file", text, a, b)
		}
	}
}

func TestMarksThatReadersOfAnswersWantAreNotHidden(t *testing.T) {
	v := &vocab{tokens: []string{"<|tool_call>", "<|think|>"}, types: []tokenizer.Type{tokenizer.Control, tokenizer.Control}}
	if v.show(visible); v.types[0] != tokenizer.UserDefined || v.types[1] != tokenizer.Control {
		t.Errorf("types %v, want the first shown", v.types)
	}
}

func TestTowersOfGemma4AreLeftOut(t *testing.T) {
	for name, out := range map[string]bool{
		"model.vision_tower.encoder.layers.0.mlp.gate_proj.linear.weight": true, "model.embed_vision.embedding_projection.weight": true,
		"model.audio_tower.layers.0.norm_out.weight": true, "model.embed_audio.embedding_projection.weight": true,
		"model.vision_embedder.patch_dense.weight":           true, // of 12B, which has no tower
		"model.language_model.embed_tokens_per_layer.weight": false, "model.language_model.layers.0.per_layer_input_gate.weight": false,
	} {
		if (&translation{}).skipped(name) != out {
			t.Errorf("%s: left out %v, want %v", name, !out, out)
		}
		if to, _ := (&translation{family: families["gemma4_text"]}).nameOf(name); !out && to == "" {
			t.Errorf("%s has no name in GGUF", name)
		}
	}
}
