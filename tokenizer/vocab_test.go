package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"memra/gguf"
)

// vocabFolder holds llama.cpp's vocabularies: files without tensors, with texts (.inp) and their tokens (.out).
const vocabFolder = "../../shared/data/vocab"

// TestLlamaCppVocabulariesGiveItsTokens compares with the ids that llama.cpp's own test expects, without special tokens
// and with the text of special tokens read as text.
func TestLlamaCppVocabulariesGiveItsTokens(t *testing.T) {
	for _, name := range []string{"gpt-2", "refact", "deepseek-llm", "llama-spm", "phi-3", "bert-bge"} {
		t.Run(name, func(t *testing.T) {
			tok := openVocab(t, filepath.Join(vocabFolder, "ggml-vocab-"+name+".gguf"), "")
			texts, want := readCases(t, filepath.Join(vocabFolder, "ggml-vocab-"+name+".gguf"))
			for i, text := range texts {
				if got := tok.Encode(text, Options{}); !slices.Equal(got, want[i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want[i])
				}
			}
		})
	}
}

// openVocab opens the vocabulary of a file, with another pre-tokeniser if pre is not "".
func openVocab(t testing.TB, path, pre string) *Tokenizer {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s", path)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pre != "" {
		f.Meta.Set("tokenizer.ggml.pre", pre)
	}
	tok, err := FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// readCases reads texts separated by a marker line, and lines of ids.
func readCases(t *testing.T, vocab string) (texts []string, ids [][]int32) {
	t.Helper()
	inp, err := os.ReadFile(vocab + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(vocab + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(inp), "\n__ggml_vocab_test__\n")
	for line := range strings.SplitSeq(string(out), "\n") {
		var row []int32
		for field := range strings.FieldsSeq(line) {
			id, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, int32(id))
		}
		ids = append(ids, row)
	}
	if len(ids) < len(texts) {
		t.Fatalf("%d lines of ids for %d texts", len(ids), len(texts))
	}
	return texts, ids
}
