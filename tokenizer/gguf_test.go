package tokenizer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// tinyMetadata describes tinyBPE as a file would.
func tinyMetadata() *gguf.Metadata {
	c := tinyBPEConfig("qwen2")
	types := make([]int32, len(c.Types))
	for i, y := range c.Types {
		types[i] = int32(y)
	}
	m := new(gguf.Metadata)
	m.Set("tokenizer.ggml.model", c.Model)
	m.Set("tokenizer.ggml.pre", c.Pre)
	m.Set("tokenizer.ggml.tokens", c.Tokens)
	m.Set("tokenizer.ggml.token_type", types)
	m.Set("tokenizer.ggml.merges", c.Merges)
	m.Set("tokenizer.ggml.bos_token_id", uint32(0))
	m.Set("tokenizer.ggml.eos_token_id", uint32(1))
	return m
}

func TestMetadataBecomesATokenizer(t *testing.T) {
	m := tinyMetadata()
	m.Set("tokenizer.ggml.add_bos_token", true)
	m.Set("tokenizer.ggml.eot_token_id", uint32(2))
	m.Set("tokenizer.ggml.eom_token_id", uint32(math.MaxUint32)) // none, as some writers say it
	tok, err := FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([]int32{0}, tinyBPE(t, "qwen2").Encode("hello  hello<td>", Options{}))
	if got := tok.Encode("hello  hello<td>", Options{AddSpecial: true}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !tok.IsEnd(1) || !tok.IsEnd(2) || tok.IsEnd(0) {
		t.Error("the end tokens are not 1 and 2")
	}
}

func TestPhi3TokensSwallowTheWhiteSpaceAfterThem(t *testing.T) {
	m := tinyMetadata()
	m.Set("general.name", "Phi-3 Mini")
	tok, err := FromGGUF(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Encode("<|im_end|> \n a<s> a", Options{ParseSpecial: true}), tok.Encode("<|im_end|>a<s> a", Options{ParseSpecial: true}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOldSentencePieceFilesHaveTheUsualIDs(t *testing.T) {
	c := tinySPMConfig(true)
	c.UNK, c.BOS, c.EOS = None, None, None
	sentencePieceIDs(&c)
	if c.UNK != 0 || c.BOS != 1 || c.EOS != 2 {
		t.Errorf("unknown %d, start %d, end %d, want 0, 1, 2", c.UNK, c.BOS, c.EOS)
	}
}

func TestBadMetadataIsRefusedByKey(t *testing.T) {
	for _, c := range []struct {
		name, key string
		value     any
	}{
		{"tokens that are no strings", "tokenizer.ggml.tokens", []int32{1, 2}},
		{"types that are no integers", "tokenizer.ggml.token_type", []string{"a"}},
		{"scores that are strings", "tokenizer.ggml.scores", []string{"a"}},
		{"merges that are a string", "tokenizer.ggml.merges", "a b"},
		{"a pre-tokeniser that is a number", "tokenizer.ggml.pre", uint32(1)},
		{"a start token that is a string", "tokenizer.ggml.bos_token_id", "<s>"},
		{"a start token below zero", "tokenizer.ggml.bos_token_id", int32(-7)},
		{"a flag that is a number", "tokenizer.ggml.add_bos_token", uint32(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := tinyMetadata()
			m.Set(c.key, c.value)
			if _, err := FromGGUF(m); err == nil || !strings.Contains(err.Error(), c.key) {
				t.Errorf("got %v, want an error that names %s", err, c.key)
			}
		})
	}
	if _, err := FromGGUF(new(gguf.Metadata)); err == nil || !strings.Contains(err.Error(), "tokenizer.ggml.model") {
		t.Errorf("without metadata: got %v, want an error that names tokenizer.ggml.model", err)
	}
}
