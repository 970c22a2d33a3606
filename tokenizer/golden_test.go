package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPreTokenisersCutTextAsTheirPatternsDo compares each scanner with the pattern of a model's tokenizer.json, run by
// Hugging Face's tokenizers (tools/oracle/tokenizer.py).
func TestPreTokenisersCutTextAsTheirPatternsDo(t *testing.T) {
	texts := golden[[]string](t, "texts.json.gz")
	for pre, want := range golden[map[string][][]int](t, "splits.json.gz") {
		t.Run(pre, func(t *testing.T) {
			p, err := preTokenizerOf(pre)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				got := []int{}
				split(text, p.split, func(piece string) { got = append(got, len(piece)) })
				if !slices.Equal(got, want[i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, cutAt(text, got), cutAt(text, want[i]))
				}
			}
		})
	}
}

// TestRealModelsTokeniseAsHuggingFace compares 800 texts, with the text of special tokens read as text and as tokens.
func TestRealModelsTokeniseAsHuggingFace(t *testing.T) {
	texts := golden[[]string](t, "texts.json.gz")
	for _, c := range []struct{ file, golden string }{
		{"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm.json.gz"},
		{"gemma-3-270m-q4_k_m.gguf", "gemma3.json.gz"},
	} {
		t.Run(c.file, func(t *testing.T) {
			tok := openVocab(t, modelPath(t, c.file), "")
			want := golden[map[string][][]int32](t, c.golden)
			for i, text := range texts {
				if got := tok.Encode(text, Options{}); !slices.Equal(got, want["plain"][i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want["plain"][i])
				}
				if got := tok.Encode(text, Options{ParseSpecial: true}); !slices.Equal(got, want["special"][i]) {
					t.Errorf("%q with special tokens:\n got %v\nwant %v", text, got, want["special"][i])
				}
			}
		})
	}
}

// modelPath finds a real model file: below MEMRA_MODELS, else where tools/models puts them.
func modelPath(t testing.TB, file string) string {
	t.Helper()
	folder := os.Getenv("MEMRA_MODELS")
	if folder == "" {
		folder = "../.models"
	}
	path := filepath.Join(folder, file)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s: run tools/models, or set MEMRA_MODELS to the folder that has it", path)
	}
	return path
}

// golden reads a file of testdata.
func golden[T any](t testing.TB, name string) (v T) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// cutAt cuts a text into pieces of the given lengths.
func cutAt(text string, lengths []int) (pieces []string) {
	for _, n := range lengths {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}
