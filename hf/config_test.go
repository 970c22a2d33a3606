package hf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

// translate makes metadata of a config.json.
func translate(t *testing.T, config string) (*translation, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var faults []error
	o, fam, err := readConfig(dir, &faults)
	if err != nil {
		return nil, err
	}
	tr := &translation{object: o, family: fam, meta: new(gguf.Metadata)}
	fam.config(tr)
	return tr, errors.Join(faults...)
}

// ones48 is the divisors of 48 rotary pairs.
var ones48 = strings.TrimSuffix(strings.Repeat("1.0,", 48), ",")

// The configurations are those of the models named, cut to what matters. The values are what llama.cpp's converter writes, but
// where a comment says otherwise.
func TestConfigurationsOfRealModelsBecomeTheirMetadata(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"SmolLM2 135M", `{"model_type":"llama","hidden_act":"silu","hidden_size":576,"intermediate_size":1536,"max_position_embeddings":8192,
			"num_attention_heads":9,"num_hidden_layers":30,"num_key_value_heads":3,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_interleaved":false,
			"rope_scaling":null,"rope_theta":100000,"tie_word_embeddings":true,"vocab_size":49152}`,
			`llama.block_count 30, llama.context_length 8192, llama.embedding_length 576, llama.feed_forward_length 1536, llama.attention.head_count 9,
			llama.attention.head_count_kv 3, llama.attention.layer_norm_rms_epsilon 1e-05,
			llama.vocab_size 49152, llama.rope.freq_base 100000, llama.rope.dimension_count 64`},
		{"Llama 3.2 1B, whose divisors are a tensor", `{"model_type":"llama","head_dim":64,"hidden_act":"silu","hidden_size":2048,"intermediate_size":8192,
			"max_position_embeddings":131072,"num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,
			"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"vocab_size":128256}`,
			`llama.block_count 16, llama.context_length 131072, llama.embedding_length 2048, llama.feed_forward_length 8192, llama.attention.head_count 32,
			llama.attention.head_count_kv 8, llama.attention.key_length 64, llama.attention.value_length 64, llama.attention.layer_norm_rms_epsilon 1e-05,
			llama.vocab_size 128256, llama.rope.freq_base 500000, llama.rope.dimension_count 64, rope_freqs.weight [32]`},
		{"Mistral 7B v0.1: a llama with windows", `{"model_type":"mistral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,
			"max_position_embeddings":32768,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_theta":10000.0,
			"sliding_window":4096,"vocab_size":32000}`,
			`llama.block_count 32, llama.context_length 32768, llama.embedding_length 4096, llama.feed_forward_length 14336, llama.attention.head_count 32,
			llama.attention.head_count_kv 8, llama.attention.layer_norm_rms_epsilon 1e-05,
			llama.vocab_size 32000, llama.rope.freq_base 10000, llama.rope.dimension_count 128, llama.attention.sliding_window 4096`},
		{"a yarn with a mean of its own", `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"max_position_embeddings":128,"num_attention_heads":4,
			"num_hidden_layers":2,"vocab_size":8,"rope_parameters":{"rope_type":"yarn","rope_theta":10000.0,"factor":4.0,"original_max_position_embeddings":32,
			"beta_fast":8.0,"beta_slow":2.0,"attention_factor":0.5693147180559945}}`,
			// attn_factor comes on top of 1 + ln(4)/10
			`llama.block_count 2, llama.context_length 128, llama.embedding_length 64, llama.feed_forward_length 96, llama.attention.head_count 4,
			llama.attention.head_count_kv 4, llama.attention.layer_norm_rms_epsilon 1e-06,
			llama.vocab_size 8, llama.rope.freq_base 10000, llama.rope.dimension_count 16, llama.rope.scaling.type yarn, llama.rope.scaling.factor 4,
			llama.rope.scaling.original_context_length 32, llama.rope.scaling.yarn_beta_fast 8, llama.rope.scaling.yarn_beta_slow 2,
			llama.rope.scaling.yarn_attn_factor 0.5693147, llama.rope.scaling.attn_factor 0.5`},
		{"a yarn of two means, its factor left out", `{"model_type":"qwen3","hidden_size":64,"intermediate_size":96,"max_position_embeddings":128,"num_attention_heads":4,
			"num_hidden_layers":2,"head_dim":32,"vocab_size":8,"rope_scaling":{"type":"yarn","original_max_position_embeddings":32,"mscale":1.0,"mscale_all_dim":1.0}}`,
			`qwen3.block_count 2, qwen3.context_length 128, qwen3.embedding_length 64, qwen3.feed_forward_length 96, qwen3.attention.head_count 4,
			qwen3.attention.head_count_kv 4, qwen3.attention.key_length 32, qwen3.attention.value_length 32, qwen3.attention.layer_norm_rms_epsilon 1e-06,
			qwen3.rope.freq_base 10000, qwen3.rope.scaling.type yarn, qwen3.rope.scaling.factor 4, qwen3.rope.scaling.original_context_length 32,
			qwen3.rope.scaling.yarn_attn_factor 1, qwen3.rope.scaling.attn_factor 0.8782489`},
		{"half of a head turns", `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":8,
			"rope_theta":10000.0,"partial_rotary_factor":0.5,"rope_scaling":{"type":"linear","factor":2.0}}`,
			`llama.block_count 2, llama.context_length 2048, llama.embedding_length 64, llama.feed_forward_length 96, llama.attention.head_count 4,
			llama.attention.head_count_kv 4, llama.attention.layer_norm_rms_epsilon 1e-06,
			llama.vocab_size 8, llama.rope.freq_base 10000, llama.rope.dimension_count 8, llama.rope.scaling.type linear, llama.rope.scaling.factor 2`},
		{"Gemma 3 4B, with pictures, most left to defaults", `{"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3","text_config":{"hidden_size":2560,
			"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},
			"vision_config":{"model_type":"siglip_vision_model"}}`,
			`gemma3.block_count 34, gemma3.context_length 131072, gemma3.embedding_length 2560, gemma3.feed_forward_length 10240, gemma3.attention.head_count 8,
			gemma3.attention.head_count_kv 4, gemma3.attention.key_length 256, gemma3.attention.value_length 256, gemma3.attention.layer_norm_rms_epsilon 1e-06,
			gemma3.attention.sliding_window 1024, gemma3.rope.freq_base 1e+06, gemma3.rope.scaling.type linear, gemma3.rope.scaling.factor 8,
			gemma3.rope.freq_base_swa 10000`},
		{"Gemma 3 as transformers 5 saves it, every second layer global", `{"model_type":"gemma3_text","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,
			"num_key_value_heads":2,"head_dim":16,"query_pre_attn_scalar":16,"sliding_window":16,"layer_types":["sliding_attention","full_attention"],"rope_parameters":{
			"full_attention":{"rope_type":"default","rope_theta":500000.0},"sliding_attention":{"rope_type":"default","rope_theta":5000.0}}}`,
			`gemma3.block_count 2, gemma3.context_length 131072, gemma3.embedding_length 64, gemma3.feed_forward_length 96, gemma3.attention.head_count 4,
			gemma3.attention.head_count_kv 2, gemma3.attention.key_length 16, gemma3.attention.value_length 16, gemma3.attention.layer_norm_rms_epsilon 1e-06,
			gemma3.attention.sliding_window 16, gemma3.attention.sliding_window_pattern [true false], gemma3.rope.freq_base 500000, gemma3.rope.freq_base_swa 5000`},
		{"Gemma 2 2B, most left to defaults", `{"model_type":"gemma2","hidden_size":2304,"num_hidden_layers":26,"sliding_window":4096}`,
			`gemma2.block_count 26, gemma2.context_length 8192, gemma2.embedding_length 2304, gemma2.feed_forward_length 9216, gemma2.attention.head_count 8,
			gemma2.attention.head_count_kv 4, gemma2.attention.key_length 256, gemma2.attention.value_length 256, gemma2.attention.layer_norm_rms_epsilon 1e-06,
			gemma2.attn_logit_softcapping 50, gemma2.final_logit_softcapping 30, gemma2.attention.sliding_window 4096`},
		{"Phi 3.5 mini: as many divisors as rotary pairs, twice", `{"model_type":"phi3","hidden_act":"silu","hidden_size":3072,"intermediate_size":8192,
			"max_position_embeddings":131072,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,"original_max_position_embeddings":4096,
			"rms_norm_eps":1e-05,"rope_scaling":{"long_factor":[` + ones48 + `],"short_factor":[` + ones48 + `],"type":"longrope"},"rope_theta":10000.0,"sliding_window":262144,
			"vocab_size":32064}`,
			`phi3.block_count 32, phi3.context_length 131072, phi3.embedding_length 3072, phi3.feed_forward_length 8192, phi3.attention.head_count 32,
			phi3.attention.head_count_kv 32, phi3.attention.layer_norm_rms_epsilon 1e-05, phi3.attention.sliding_window 262144,
			phi3.rope.scaling.original_context_length 4096, phi3.rope.freq_base 10000, phi3.rope.dimension_count 96, phi3.rope.scaling.attn_factor 1.1902381,
			rope_factors_long.weight [48], rope_factors_short.weight [48]`},
		{"Granite 3.3 2B", `{"model_type":"granite","attention_multiplier":0.015625,"embedding_multiplier":12.0,"hidden_act":"silu","hidden_size":2048,
			"intermediate_size":8192,"logits_scaling":8.0,"max_position_embeddings":131072,"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,
			"residual_multiplier":0.22,"rms_norm_eps":1e-05,"rope_theta":10000000.0,"vocab_size":49159}`,
			`granite.block_count 40, granite.context_length 131072, granite.embedding_length 2048, granite.feed_forward_length 8192, granite.attention.head_count 32,
			granite.attention.head_count_kv 8, granite.attention.layer_norm_rms_epsilon 1e-05, granite.vocab_size 49159, granite.rope.freq_base 1e+07,
			granite.rope.dimension_count 64, granite.attention.scale 0.015625, granite.embedding_scale 12, granite.residual_scale 0.22, granite.logit_scale 8`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := translate(t, c.config)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for key, value := range tr.meta.All() {
				got = append(got, fmt.Sprintf("%s %v", key, value))
			}
			for _, e := range tr.extra {
				got = append(got, fmt.Sprintf("%s %v", e.Name, e.Shape))
			}
			want := strings.Join(strings.Fields(c.want), " ")
			if have := strings.Join(got, ", "); have != want {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.ReplaceAll(want, ", ", "\n"))
			}
		})
	}
}

// The sums are those of the tensors that llama.cpp's converter makes, with torch in float32.
func TestDivisorsOfLlama3HaveTheBitsThatConvertersGiveThem(t *testing.T) {
	for _, c := range []struct {
		dims   int
		factor float64
		sum    string
	}{{64, 32, "d25a6d176d931306"}, {128, 8, "8b516af9cb5db26e"}} {
		var faults []error
		p := object{value: map[string]any{}, faults: &faults}
		got := llama3Divisors(p, 500000, c.dims, c.factor, 8192)
		if sum := sha256.Sum256(got.Data); len(faults) > 0 || hex.EncodeToString(sum[:8]) != c.sum {
			t.Errorf("%d dimensions by %v: SHA-256 %x, want %s: %v", c.dims, c.factor, sum[:8], c.sum, faults)
		}
	}
}

func TestSettingsThatNoFamilyComputesAreRefusedByName(t *testing.T) {
	llama := func(more string) string {
		return `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":8` + more + `}`
	}
	gemma := func(more string) string { return `{"model_type":"gemma3_text"` + more + `}` }
	rope := func(more string) string { return llama(`,"rope_scaling":{` + more + `}`) }
	for _, c := range []struct{ name, config, want string }{
		{"no JSON", `{"model_type"`, "config.json: the JSON ends too early"},
		{"an array", `[]`, "found an array of 0, want an object"},
		{"two values", `{} {}`, "found more after the JSON value"},
		{"a key twice", `{"model_type":"llama","model_type":"mistral"}`, `the key "model_type" is there twice`},
		{"a key twice, further in", llama(`,"rope_scaling":{"factor":1,"factor":2}`), `the key "factor" is there twice`},
		{"brackets in brackets", strings.Repeat("[", 100), "more than 32 deep"},
		{"no family", `{}`, `model_type: found "", want one of gemma2`},
		{"another family", `{"model_type":"mamba9"}`, `model_type: found "mamba9"`},
		{"a family of a number", `{"model_type":9}`, `model_type: found ""`},
		{"no layers", `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"vocab_size":8}`, "num_hidden_layers: is missing"},
		{"no heads", `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":0,"num_hidden_layers":2,"vocab_size":8}`, "num_attention_heads: found 0"},
		{"layers in words", llama(`,"max_position_embeddings":"many"`), `max_position_embeddings: found "many", want an integer of 0 to`},
		{"half a layer", llama(`,"max_position_embeddings":1.5`), "found 1.5, want an integer"},
		{"a head wider than any", llama(`,"head_dim":1000000000,"rope_scaling":{"rope_type":"llama3","factor":2}`), "head_dim: found 1000000000, want at most 65536"},
		{"a negative number", llama(`,"head_dim":-8`), "head_dim: found -8"},
		{"a number beyond all", llama(`,"head_dim":1e400`), "head_dim: found 1e400"},
		{"another activation", llama(`,"hidden_act":"gelu"`), `hidden_act: found "gelu", want silu: the family llama computes nothing else here`},
		{"a text for a switch", llama(`,"tie_word_embeddings":"yes","rope_scaling":[]`), "rope_scaling: found an array of 0, want an object"},
		{"a scaling that is not known", rope(`"rope_type":"longrope","factor":2`), `rope_scaling: rope_type: found "longrope", want default, linear, llama3 or yarn`},
		{"a scaling without its factor", rope(`"rope_type":"linear"`), "rope_scaling: factor: found 0, want more than 0 for linear"},
		{"a ramp between pairs", rope(`"rope_type":"yarn","factor":4,"truncate":false`), "truncate: found false, want true"},
		{"llama3 without a band", rope(`"rope_type":"llama3","factor":4,"low_freq_factor":4,"high_freq_factor":4`), "high_freq_factor: found 4 with low_freq_factor 4"},
		{"more than all of a head turns", llama(`,"partial_rotary_factor":1.5`), "partial_rotary_factor: found 1.5"},
		{"windows in Qwen", strings.Replace(llama(`,"use_sliding_window":true`), "llama", "qwen3", 1), "use_sliding_window: found true, want false"},
		{"capped logits", gemma(`,"final_logit_softcapping":30.0`), "final_logit_softcapping: found 30.0, want null"},
		{"looking both ways", gemma(`,"use_bidirectional_attention":true`), "use_bidirectional_attention: found true"},
		{"scores scaled otherwise", gemma(`,"query_pre_attn_scalar":144`), "query_pre_attn_scalar: found 144, want 256, the width of a head"},
		{"layers of a third kind", gemma(`,"num_hidden_layers":1,"layer_types":["chunked_attention"]`), `layer_types: found "chunked_attention"`},
		{"kinds for other layers", gemma(`,"layer_types":["full_attention"]`), "layer_types: found 1, want one for each of 26 layers"},
		{"scores without a cap where GGUF has no word for it", `{"model_type":"gemma2","attn_logit_softcapping":0}`, "attn_logit_softcapping: found 0, want a positive number"},
		{"windows in other layers", `{"model_type":"gemma2","layer_types":["full_attention"]}`, `layer_types: found "full_attention" for layer 0, want sliding_attention`},
		{"other layers that do not turn", strings.Replace(llama(`,"no_rope_layers":[1,0]`), "llama", "smollm3", 1), "no_rope_layers: found 0 for layer 1, want 1"},
		{"too few divisors", strings.Replace(rope(`"rope_type":"longrope","long_factor":[1,2],"short_factor":[1]`), "llama", "phi3", 1), "long_factor: found 2 numbers, want 8, one for each rotary pair"},
		{"divisors of words", strings.Replace(rope(`"rope_type":"longrope","long_factor":["a"]`), "llama", "phi3", 1), "long_factor: found an array of 1, want an array of numbers"},
		{"a multiplier of nothing", strings.Replace(llama(`,"logits_scaling":0`), "llama", "granite", 1), "logits_scaling: found 0, want another number"},
		{"a period of zero", gemma(`,"sliding_window_pattern":0`), "sliding_window_pattern: found 0"},
		{"windowed layers that are scaled", gemma(`,"rope_parameters":{"full_attention":{},"sliding_attention":{"rope_type":"linear","factor":2.0}}`), `sliding_attention: rope_type: found "linear", want default`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := translate(t, c.config)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config.json") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
