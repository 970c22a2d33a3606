package tokenizer

import (
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

func TestTokensForTheMiddleAreKnownByKeyOrByText(t *testing.T) {
	const qwen, glm = "<|fim_prefix|> <|fim_suffix|> <|fim_middle|>", "<|code_prefix|> <|code_suffix|> <|code_middle|>"
	none := Fill{None, None, None}
	for _, c := range []struct {
		name   string
		tokens string         // beside the alphabet, from token 256 on
		keys   map[string]any // below tokenizer.ggml.
		want   Fill
		ok     bool
	}{
		{"none", "", nil, none, false},
		{"Qwen's texts", "x " + qwen, nil, Fill{257, 258, 259}, true},
		{"CodeLlama's texts, in another order", "▁<MID> ▁<PRE> ▁<SUF>", nil, Fill{257, 258, 256}, true},
		{"a text is missing", "<PRE> <SUF>", nil, none, false},
		{"texts of two families are no family", "<PRE> <SUF> <|fim_middle|>", nil, none, false},
		{"two families", glm + " " + qwen, nil, Fill{259, 260, 261}, true},
		{"keys", "a b c", map[string]any{"fim_pre": uint32(258), "fim_suf": uint32(257), "fim_mid": uint32(256)}, Fill{258, 257, 256}, true},
		{"older keys", "a b c", map[string]any{"prefix": uint32(256), "suffix": uint32(257), "middle": uint32(258)}, Fill{256, 257, 258}, true},
		{"a key overrules a text", "x " + qwen, map[string]any{"fim_mid": uint32(256)}, Fill{257, 258, 256}, true},
		{"a key alone", "x", map[string]any{"fim_mid": uint32(256)}, Fill{None, None, 256}, false},
	} {
		m := new(gguf.Metadata)
		var tokens []string
		for _, r := range letterOf {
			tokens = append(tokens, string(r))
		}
		m.Set(keys+"model", "gpt2")
		m.Set(keys+"pre", "gpt-2")
		m.Set(keys+"tokens", append(tokens, strings.Fields(c.tokens)...))
		m.Set(keys+"merges", []string{})
		for key, id := range c.keys {
			m.Set(keys+key+"_token_id", id)
		}
		tok, err := FromGGUF(m)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, ok := tok.Fill(); got != c.want || ok != c.ok {
			t.Errorf("%s: found %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestTokensForTheMiddleAreFoundInTokenizerJSON(t *testing.T) {
	tok, err := FromHF(HFFiles{Tokenizer: []byte(`{"version":"1.0","model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[
		{"id":1,"content":"<fim_prefix>","special":true},{"id":2,"content":"<fim_middle>","special":true},{"id":3,"content":"<fim_suffix>","special":true}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := tok.Fill(); got != (Fill{1, 3, 2}) || !ok {
		t.Errorf("found %v, %v, want tokens 1, 3, 2", got, ok)
	}
}

// What llama-tokenize prints of these vocabularies.
func TestLlamaCppVocabulariesGiveItsTokensForTheMiddle(t *testing.T) {
	none := Fill{None, None, None}
	for name, want := range map[string]Fill{"refact": {1, 3, 2}, "gpt-2": none, "deepseek-llm": none, "llama-spm": none, "phi-3": none, "bert-bge": none} {
		t.Run(name, func(t *testing.T) {
			tok := openVocab(t, filepath.Join(vocabFolder, "ggml-vocab-"+name+".gguf"), "")
			if got, _ := tok.Fill(); got != want {
				t.Errorf("found %v, want %v", got, want)
			}
		})
	}
}
