package hf

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
	"memra/safetensors"
)

// change rewrites a JSON file of a folder.
func change(t *testing.T, path string, f func(map[string]any)) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	f(v)
	if data, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// weightsOf rewrites the weights of a folder of one file.
func weightsOf(t *testing.T, dir string, f func([]safetensors.Tensor) []safetensors.Tensor) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	file, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := safetensors.Write(path, nil, f(file.Tensors)); err != nil {
		t.Fatal(err)
	}
}

func TestAFaultyFolderIsRefusedWithAllThatIsWrong(t *testing.T) {
	config := func(key string, value any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, "config.json"), func(v map[string]any) { v[key] = value })
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	rename := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			weightsOf(t, dir, func(tensors []safetensors.Tensor) []safetensors.Tensor {
				for i := range tensors {
					if tensors[i].Name == from {
						tensors[i].Name = to
					}
				}
				return tensors
			})
		}
	}
	add := func(name string, shape ...int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			weightsOf(t, dir, func(tensors []safetensors.Tensor) []safetensors.Tensor {
				n := 4
				for _, d := range shape {
					n *= d
				}
				return append(tensors, safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: make([]byte, n)})
			})
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, string)
		want  []string
	}{
		{"no config.json", remove("config.json"), []string{"is a folder without config.json"}},
		{"no weights", remove("model.safetensors"), []string{"no weights: want model.safetensors"}},
		{"several settings at once", func(t *testing.T, dir string) {
			config("hidden_act", "relu")(t, dir)
			config("num_hidden_layers", "two")(t, dir)
		}, []string{"hidden_act", "num_hidden_layers"}},
		{"a tensor of no family", rename("model.norm.weight", "model.final.weight"), []string{"tensor model.final.weight: is not known to models of type llama"}},
		{"a tensor of a layer and no name", rename("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up.weight"), []string{"model.layers.0.mlp.up.weight"}},
		{"a layer that is spelled otherwise", rename("model.layers.1.mlp.up_proj.weight", "model.layers.01.mlp.up_proj.weight"), []string{"model.layers.01.mlp.up_proj.weight"}},
		{"two names for one tensor", add("language_model.model.norm.weight", 64), []string{"means the same as"}},
		{"queries of another shape", config("num_attention_heads", 8), []string{"self_attn.q_proj.weight: shape [64 64], want 128 rows (8 heads x 16)"}},
		{"no output matrix", config("tie_word_embeddings", false), []string{"tie_word_embeddings", "lm_head.weight", "download"}},
		{"a method of quantising that is not read", config("quantization_config", map[string]any{"quant_method": "awq"}), []string{`quant_method: found "awq"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", func(dir string) { c.spoil(t, dir) })
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v, want fs.ErrNotExist", err)
	}
}

func TestAFolderWithoutATokenizerCanBeLookedAt(t *testing.T) {
	f, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", func(dir string) {
		if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, refused := f.Tokenizer()
	for _, err := range []error{f.Vocabulary(), refused} {
		if err == nil || !strings.Contains(err.Error(), "neither tokenizer.json nor tokenizer.model") {
			t.Errorf("error %v", err)
		}
	}
	if _, ok := f.Metadata().Get("tokenizer.ggml.model"); ok || len(f.Tensors()) == 0 {
		t.Errorf("%d tensors, and a tokenizer's keys", len(f.Tensors()))
	}
}

func TestWhatIsNotTheModelsIsLeftOut(t *testing.T) {
	f, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", func(dir string) {
		weightsOf(t, dir, func(tensors []safetensors.Tensor) []safetensors.Tensor {
			for i := range tensors {
				tensors[i].Name = "language_model." + tensors[i].Name
			}
			one := func(name string) safetensors.Tensor {
				return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: []int{1}, Data: make([]byte, 4)}
			}
			head := one("language_model.lm_head.weight") // tied: the embedding counts
			return append(tensors, one("vision_tower.blocks.0.weight"), one("multi_modal_projector.weight"), one("model.vision_tower.x.weight"),
				one("language_model.model.layers.0.self_attn.rotary_emb.inv_freq"), one("language_model.model.layers.0.self_attn.k_scale"), head)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(f.Tensors()), len(plain.Tensors()); got != want {
		t.Errorf("%d tensors, want the %d of the model alone", got, want)
	}
}

// A llama whose matrices are quantised in two spellings computes what it does with the values that the codes mean.
func TestAQuantisedFolderComputesWhatItsValuesDo(t *testing.T) {
	tokens := []int32{1, 5, 9, 200, 17}
	spell := func(meaning bool) func(dir string) {
		return func(dir string) {
			weightsOf(t, dir, func(tensors []safetensors.Tensor) []safetensors.Tensor {
				var out []safetensors.Tensor
				for _, x := range tensors {
					if len(x.Shape) != 2 || strings.Contains(x.Name, "embed") {
						out = append(out, x)
						continue
					}
					out = append(out, spelled(t, x, meaning)...)
				}
				return out
			})
		}
	}
	codes, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", spell(false))
	if err != nil {
		t.Fatal(err)
	}
	values, err := openZip(t, "../model/testdata/tiny/llama-plain.zip", spell(true))
	if err != nil {
		t.Fatal(err)
	}
	got, want := logits(t, codes, tokens), logits(t, values, tokens)
	for i := range want {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("position %d: the bits of the logits differ", i)
		}
	}
}

// spelled is a matrix that NVFP4 or FP8 can nearly hold: as codes and scales, or as what these mean, in F32.
func spelled(t *testing.T, x safetensors.Tensor, meaning bool) []safetensors.Tensor {
	rows, width := x.Shape[0], x.Shape[1]
	base := strings.TrimSuffix(x.Name, ".weight")
	f32 := func(name string, shape []int, v []float32) safetensors.Tensor {
		w := ofFloats(weight{Tensor: gguf.Tensor{Name: name, Shape: shape}}, v)
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape, Data: w.Data}
	}
	var codes []byte
	var parts []safetensors.Tensor
	mean := make([]float32, rows*width)
	if width%64 == 0 {
		fp4 := [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
		for i := range mean {
			code := x.Data[4*i+3]>>4&8 | x.Data[4*i+2]>>4&7 // sign and some bits of the value
			mean[i] = fp4[code] * 0.25 * 0.3
			if codes = append(codes, code); i%2 == 1 {
				codes[len(codes)-2] |= code << 4
				codes = codes[:len(codes)-1]
			}
		}
		scales := make([]byte, rows*width/16)
		for i := range scales {
			scales[i] = 0x28 // 0.25
		}
		parts = []safetensors.Tensor{
			{Name: base + ".weight", DType: safetensors.U8, Shape: []int{rows, width / 2}, Data: codes},
			{Name: base + ".weight_scale", DType: safetensors.F8E4M3, Shape: []int{rows, width / 16}, Data: scales},
			f32(base+".weight_scale_2", []int{}, []float32{0.3}),
			f32(base+".input_scale", []int{}, []float32{7}),
		}
	} else {
		for i := range mean {
			code := x.Data[4*i+3]&0x80 | x.Data[4*i+2]>>1&0x3f
			codes = append(codes, code)
			mean[i] = e4m3[code] * 0.3
		}
		parts = []safetensors.Tensor{
			{Name: base + ".weight", DType: safetensors.F8E4M3, Shape: []int{rows, width}, Data: codes},
			f32(base+".weight_scale", []int{1}, []float32{0.3}),
		}
	}
	if meaning {
		return []safetensors.Tensor{f32(x.Name, x.Shape, mean)}
	}
	return parts
}
