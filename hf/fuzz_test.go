package hf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"memra/gguf"
	"memra/internal/bounded"
	"memra/internal/golden"
	"memra/tokenizer"
)

// FuzzConfig: whatever config.json says, it becomes metadata or an error.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":8,
		"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64}}`))
	f.Add([]byte(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_hidden_layers":3,"sliding_window_pattern":2,
		"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":4},"sliding_attention":{}}}}`))
	f.Add([]byte(`{"model_type":"qwen3","head_dim":1e9,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		var err error
		bounded.Read(t, len(data), func() { value, err = parseJSON(data) })
		if err != nil {
			return
		}
		root, ok := value.(map[string]any)
		if !ok {
			return
		}
		var faults []error
		config := object{"config.json", root, &faults}.over("text_config")
		fam := families[config.text("model_type", "")]
		if fam == nil {
			return
		}
		tr := &translation{object: config, family: fam, meta: new(gguf.Metadata)}
		bounded.Read(t, len(data), func() { fam.config(tr) })
		if len(faults) == 0 && tr.meta.Len() < 8 {
			t.Fatalf("neither metadata nor a fault: %d keys", tr.meta.Len())
		}
	})
}

// FuzzFolder: whatever the JSON files of a folder with good weights say, it opens or there is an error. An empty one is not there.
func FuzzFolder(f *testing.F) {
	names := []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors.index.json"}
	dir := f.TempDir()
	for _, zip := range []string{"gemma3-six.zip", "llama-grouped.zip"} { // the weights of both stay, and the index tells
		if err := golden.Folder(filepath.Join("..", "model", "testdata", "tiny", zip), dir); err != nil {
			f.Fatal(err)
		}
		read := func(i int) []byte {
			data, _ := os.ReadFile(filepath.Join(dir, names[i]))
			return data // nil where the folder does not have it
		}
		f.Add(read(0), read(1), read(2), read(3), read(4))
	}
	f.Fuzz(func(t *testing.T, config, tokens, tokensConfig, generation, index []byte) {
		size := 0
		for i, data := range [][]byte{config, tokens, tokensConfig, generation, index} {
			size += len(data)
			if len(data) == 0 {
				os.Remove(filepath.Join(dir, names[i]))
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, names[i]), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		bounded.Read(t, size, func() {
			folder, err := Open(dir)
			if err != nil {
				return
			}
			defer folder.Close()
			if tok, err := folder.Tokenizer(); err == nil {
				tok.Encode("ab a", tokenizer.Options{})
			}
		})
	})
}

// FuzzTokenizer: whatever the tokenizer's files say, they become a vocabulary or an error.
func FuzzTokenizer(f *testing.F) {
	f.Add([]byte(small()), true)
	f.Add([]byte(smallSPM()), true)
	f.Add([]byte("\x0a\x08\x0a\x01a\x15\x00\x00\x80\x3f\x12\x02\x18\x02\x1a\x04\x18\x00\x20\x00"), false)
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		bounded.Read(t, len(data), func() {
			v, added, err := parseVocabulary(data, isJSON)
			if err == nil {
				err = v.add("f", added, 4)
			}
			if err != nil {
				return
			}
			tr := &translation{meta: new(gguf.Metadata)}
			v.set(tr)
			if tok, err := tokenizer.FromGGUF(tr.meta); err == nil {
				tok.Encode("ab a", tokenizer.Options{})
			}
		})
	})
}

// parseVocabulary does what vocabulary does, with a file's bytes.
func parseVocabulary(data []byte, isJSON bool) (*vocab, []addedToken, error) {
	if !isJSON {
		v, err := readSentencePiece(data)
		return v, nil, err
	}
	var file tokenizerJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, err
	}
	read := func() (*vocab, error) { return byteLevel("f", &file) }
	if file.Model.ByteFallback {
		read = func() (*vocab, error) { return scoresOfMerges(&file) }
	}
	v, err := read()
	return v, file.AddedTokens, err
}
