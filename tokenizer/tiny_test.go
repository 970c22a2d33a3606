package tokenizer

import (
	"strings"
	"testing"
)

// absent is a Config whose special tokens are all absent.
func absent() Config { return Config{BOS: None, EOS: None, EOT: None, EOM: None, UNK: None} }

// tinyBPE is a byte-level vocabulary: <s>, </s>, <|im_end|>, an added token "<td>", all bytes, and some merges.
func tinyBPE(t testing.TB, pre string) *Tokenizer {
	t.Helper()
	tok, err := New(tinyBPEConfig(pre))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func tinyBPEConfig(pre string) Config {
	c := absent()
	c.Model, c.Pre = "gpt2", pre
	c.Tokens = []string{"<s>", "</s>", "<|im_end|>", "<td>"}
	c.Types = []Type{Control, Control, Control, UserDefined}
	c.BOS, c.EOS = 0, 1
	for _, r := range letterOf {
		c.Tokens = append(c.Tokens, string(r))
	}
	for _, m := range []string{"a a", "aa aa", "h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "Ã ©", "ð Ł", "ðŁ ĺ", "1 2", "12 3", "' s", "- -", "-- --"} {
		c.Merges = append(c.Merges, m)
		c.Tokens = append(c.Tokens, strings.ReplaceAll(m, " ", ""))
	}
	for len(c.Types) < len(c.Tokens) {
		c.Types = append(c.Types, Normal)
	}
	return c
}

// tinySPM is a SentencePiece vocabulary: <unk>, <s>, </s>, an added token "<td>", all bytes, and some pieces.
func tinySPM(t testing.TB, prefix bool) *Tokenizer {
	t.Helper()
	tok, err := New(tinySPMConfig(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func tinySPMConfig(prefix bool) Config {
	c := absent()
	c.Model, c.AddSpacePrefix = "llama", &prefix
	c.Tokens = []string{"<unk>", "<s>", "</s>", "<td>"}
	c.Types = []Type{Unknown, Control, Control, UserDefined}
	c.UNK, c.BOS, c.EOS = 0, 1, 2
	const hex = "0123456789ABCDEF"
	for b := range 256 {
		c.Tokens = append(c.Tokens, "<0x"+string(hex[b>>4])+string(hex[b&15])+">")
		c.Types = append(c.Types, Byte)
	}
	pieces := []string{"he", "ll", "hell", "hello", "▁hello", "aa", "aaa", "aaaa", "▁▁", "▁▁▁▁", "éé", ">▁<", "▁a", "a▁", "h", "e", "l", "o", "a", "é", "▁", ">", "<", "1"}
	for i, p := range pieces {
		c.Tokens = append(c.Tokens, p)
		c.Types = append(c.Types, Normal)
		for len(c.Scores) < len(c.Tokens) {
			c.Scores = append(c.Scores, float32(-i))
		}
	}
	return c
}

// tinies returns a tokenizer of every kind and pattern.
func tinies(t testing.TB) map[string]*Tokenizer {
	m := map[string]*Tokenizer{"spm": tinySPM(t, false), "spm with prefix": tinySPM(t, true)}
	for _, pre := range []string{"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm", "deepseek-coder", "deepseek-v3"} {
		m[pre] = tinyBPE(t, pre)
	}
	return m
}
