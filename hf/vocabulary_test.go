package hf

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
	"memra/tokenizer"
)

// readVocabulary reads the tokenizer of a folder of these files, for a model of size tokens.
func readVocabulary(t *testing.T, size int, files map[string]string) (*gguf.Metadata, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var faults []error
	tr := &translation{object: object{"config.json", map[string]any{"vocab_size": number(size)}, &faults}, family: families["llama"], meta: new(gguf.Metadata)}
	err := vocabulary(dir, tr)
	return tr.meta, errors.Join(append(faults, err)...)
}

// Vocabularies that sentencepiece trained, and the tokens that it gives.
func TestSentencePieceVocabulariesGiveItsTokens(t *testing.T) {
	dir := t.TempDir()
	if err := golden.Folder("testdata/sentencepiece.zip", dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var truth map[string]struct {
		Texts, Pieces []string
		Tokens        [][]int32
		Scores        []float32
		Types         []int32
	}
	if err := json.Unmarshal([]byte(read("truth.json")), &truth); err != nil {
		t.Fatal(err)
	}
	for kind, want := range truth {
		for name, files := range map[string]map[string]string{
			"tokenizer.model":                    {"tokenizer.model": read(kind + ".model")},
			"tokenizer.json":                     {"tokenizer.json": read(kind + ".json")},
			"tokenizer.model and tokenizer.json": {"tokenizer.model": read(kind + ".model"), "tokenizer.json": read(kind + ".json")},
		} {
			meta, err := readVocabulary(t, len(want.Pieces)+2, files)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind, name, err)
			}
			pieces, _ := meta.Strings("tokenizer.ggml.tokens")
			if n := len(want.Pieces); !slices.Equal(pieces[:n], want.Pieces) || !slices.Equal(pieces[n:], []string{"[PAD600]", "[PAD601]"}) {
				t.Errorf("%s, %s: pieces %q...", kind, name, pieces[:8])
			}
			if types, _ := meta.Get("tokenizer.ggml.token_type"); !reflect.DeepEqual(types, append(slices.Clone(want.Types), 5, 5)) {
				t.Errorf("%s, %s: types %v, want %v", kind, name, types, want.Types)
			}
			if name == "tokenizer.model" {
				if scores, _ := meta.Get("tokenizer.ggml.scores"); !reflect.DeepEqual(scores.([]float32)[:600], want.Scores) {
					t.Errorf("%s, %s: the scores differ", kind, name)
				}
			}
			tok, err := tokenizer.FromGGUF(meta)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind, name, err)
			}
			for i, text := range want.Texts {
				if got := tok.Encode(text, tokenizer.Options{}); !slices.Equal(got, want.Tokens[i]) {
					t.Errorf("%s, %s: %q: tokens %v, want %v", kind, name, text, got, want.Tokens[i])
				}
			}
		}
	}
}

// small is a byte-level tokenizer.json of four tokens, with parts to replace.
func small(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{"added_tokens":[{"id":3,"content":"<|end|>","special":true}],"normalizer":null,
		"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},
		"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}`)
}

// smallSPM is one of SentencePiece's kind.
func smallSPM(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{"added_tokens":[],"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"pre_tokenizer":null,
		"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","vocab":{"<unk>":0,"a":1,"b":2,"ab":3,"aba":4},"merges":[["a","b"],["ab","a"]]}}`)
}

func TestSpecialTokensComeFromTheFilesThatNameThem(t *testing.T) {
	template := `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|end|>"}},{"Sequence":{"id":"A"}}]}`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]any // below tokenizer.ggml.; nil: absent
	}{
		{"tokenizer_config.json", map[string]string{"tokenizer_config.json": `{"bos_token":"<|end|>","eos_token":{"content":"<|end|>"},"add_bos_token":true}`},
			map[string]any{"bos_token_id": uint32(3), "eos_token_id": uint32(3), "add_bos_token": true, "add_eos_token": nil, "padding_token_id": nil}},
		{"special_tokens_map.json", map[string]string{"special_tokens_map.json": `{"eos_token":"<|end|>","unk_token":{"content":"a"}}`},
			map[string]any{"eos_token_id": uint32(3), "unknown_token_id": uint32(0), "bos_token_id": nil}},
		{"generation_config.json, with ends of several kinds", map[string]string{"tokenizer_config.json": `{"eos_token":"<|end|>"}`, "generation_config.json": `{"eos_token_id":[3,1,2]}`},
			map[string]any{"eos_token_id": uint32(3), "eot_token_id": uint32(1), "eom_token_id": uint32(2)}},
		{"a post-processor that begins texts", map[string]string{"tokenizer.json": small(`"post_processor":null`, template), "tokenizer_config.json": `{"bos_token":"<|end|>","add_bos_token":false}`},
			map[string]any{"add_bos_token": true}},
		{"a post-processor that adds nothing", map[string]string{"tokenizer.json": small(`"post_processor":null`, `"post_processor":{"type":"ByteLevel"}`), "tokenizer_config.json": `{"bos_token":"a","add_bos_token":true}`},
			map[string]any{"add_bos_token": false, "add_eos_token": false}},
		{"two post-processors", map[string]string{"tokenizer.json": small(`"post_processor":null`, `"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},`+strings.TrimPrefix(template, `"post_processor":`)+`]}`),
			"tokenizer_config.json": `{"bos_token":"<|end|>"}`}, map[string]any{"add_bos_token": true, "add_eos_token": false}},
	} {
		if c.files["tokenizer.json"] == "" {
			c.files["tokenizer.json"] = small()
		}
		meta, err := readVocabulary(t, 4, c.files)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for key, want := range c.want {
			if got, _ := meta.Get("tokenizer.ggml." + key); got != want {
				t.Errorf("%s: %s is %v, want %v", c.name, key, got, want)
			}
		}
	}
}

func TestPreTokenisersAreKnownByTheirParts(t *testing.T) {
	split := func(pattern string) string {
		text, _ := json.Marshal(pattern)
		return `{"type":"Split","pattern":{"Regex":` + string(text) + `},"behavior":"Isolated","invert":false}`
	}
	const bytes, own = `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`
	const digits = `{"type":"Digits","individual_digits":true}`
	for _, c := range []struct{ parts, whole, want string }{
		{own, "false", "gpt-2"},
		{digits + "," + own, "false", "smollm"},
		{split(words("{1,3}")) + "," + bytes, "true", "llama-bpe"},
		{split(words("{1,3}")) + "," + bytes, "false", "dbrx"},
		{split(words("")) + "," + bytes, "false", "qwen2"},
		{split(casedWords(`\p{N}{1,3}`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`)) + "," + bytes, "false", "gpt-4o"},
		{split(casedWords(`\p{N}`, "")) + "," + bytes, "true", "tekken"},
		{split(words("")) + "," + bytes, "true", "error: ignore_merges with the pre-tokeniser qwen2"},
		{split(words("{1,4}")) + "," + bytes, "false", "error: GGUF has no name for the patterns"},
		{split(words("")) + "," + own, "false", "error: ByteLevel with its own pattern true after 1 others"},
		{bytes, "false", "error: ByteLevel with its own pattern false after 0 others"},
		{split(words("")), "false", "error: GGUF has no name"},
		{`{"type":"Whitespace"}`, "false", `error: found "Whitespace"`},
		{strings.Replace(own, "false", "true", 1), "false", "error: add_prefix_space true"},
	} {
		meta, err := readVocabulary(t, 4, map[string]string{"tokenizer.json": small(`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`,
			`"pre_tokenizer":{"type":"Sequence","pretokenizers":[`+c.parts+`]}`, `"type":"BPE"`, `"type":"BPE","ignore_merges":`+c.whole), "tokenizer_config.json": `{"bos_token":"<|end|>"}`})
		if want, ok := strings.CutPrefix(c.want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", c.parts, err, want)
			}
			continue
		}
		if got, _ := meta.String("tokenizer.ggml.pre"); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.parts, got, err, c.want)
		}
		if _, err := tokenizer.FromGGUF(meta); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestTokenizersThatGGUFCannotSayAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"none", map[string]string{}, "neither tokenizer.json nor tokenizer.model is there"},
		{"no JSON", map[string]string{"tokenizer.json": `{`}, "tokenizer.json: unexpected end of JSON"},
		{"another kind", map[string]string{"tokenizer.json": small(`"BPE"`, `"WordPiece"`)}, `model: found the type "WordPiece", want BPE`},
		{"a normaliser", map[string]string{"tokenizer.json": small(`"normalizer":null`, `"normalizer":{"type":"Lowercase"}`)}, `normalizer: found "Lowercase"`},
		{"marks of parts of words", map[string]string{"tokenizer.json": small(`"merges"`, `"continuing_subword_prefix":"##","merges"`)}, "continuing_subword_prefix"},
		{"two tokens of one id", map[string]string{"tokenizer.json": small(`"ab":2`, `"ab":1`)}, "have the same id 1"},
		{"an id far away", map[string]string{"tokenizer.json": small(`"ab":2`, `"ab":999999999`)}, `token "ab" has the id 999999999`},
		{"a negative id", map[string]string{"tokenizer.json": small(`"ab":2`, `"ab":-1`)}, `token "ab" has the id -1`},
		{"a merge of three", map[string]string{"tokenizer.json": small(`[["a","b"]]`, `["a b c"]`)}, `merge 0 is "a b c"`},
		{"merges of numbers", map[string]string{"tokenizer.json": small(`[["a","b"]]`, `[1]`)}, "merges: want an array of pairs"},
		{"an added token beyond the embedding", map[string]string{"tokenizer.json": small(`"id":3`, `"id":4`)}, `added token "<|end|>" has the id 4, but the model has 4`},
		{"spaces that stay", map[string]string{"tokenizer.json": smallSPM(`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, `null`)}, "spaces stay as they are"},
		{"a normaliser of pieces", map[string]string{"tokenizer.json": smallSPM(`"type":"Replace"`, `"type":"NFKC"`)}, `normalizer: found "NFKC"`},
		{"words of pieces", map[string]string{"tokenizer.json": smallSPM(`"pre_tokenizer":null`, `"pre_tokenizer":{"type":"Metaspace","split":true}`)}, `pre_tokenizer: found "Metaspace"`},
		{"a merge of no token", map[string]string{"tokenizer.json": smallSPM(`["ab","a"]`, `["b","b"]`)}, `merge 1 makes "bb", which is no token`},
		{"merges in no order of pieces", map[string]string{"tokenizer.json": smallSPM(`["ab","a"]]`, `["ab","a"],["a","b"]]`)}, `merge 2 makes "ab"`},
		{"merges that leave ways out", map[string]string{"tokenizer.json": smallSPM(`"aba":4`, `"aba":4,"ba":5`, `["ab","a"]]`, `["b","a"],["ab","a"]]`)}, `1 merges make "aba", which can be cut into two tokens in 2 ways`},
		{"a model that is none", map[string]string{"tokenizer.model": "\xff\xff\xff"}, "ends within a field"},
		{"a model of nothing", map[string]string{"tokenizer.model": ""}, "found no pieces"},
		{"a model of another kind", map[string]string{"tokenizer.model": "\x0a\x03\x0a\x01a"}, "found the kind 1, want 2, BPE"},
		{"a model that merges spaces", map[string]string{"tokenizer.model": "\x0a\x03\x0a\x01a\x12\x02\x18\x02"}, "remove_extra_whitespaces"},
		{"a model with a table", map[string]string{"tokenizer.model": "\x0a\x03\x0a\x01a\x1a\x03\x12\x01x"}, "found a table of characters"},
		{"a piece of no type", map[string]string{"tokenizer.model": "\x0a\x05\x0a\x01a\x18\x09"}, "type 9"},
		{"a field of an old kind", map[string]string{"tokenizer.model": "\x0b"}, "kind 3, want 0, 1, 2 or 5"},
		{"a length beyond the file", map[string]string{"tokenizer.model": "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}, "ends within a field"},
		{"too many ends", map[string]string{"tokenizer.json": small(), "generation_config.json": `{"eos_token_id":[0,1,2,3]}`}, "eos_token_id: found [0 1 2 3], want at most two beside"},
		{"templates without a default", map[string]string{"tokenizer.json": small(), "tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"x"}]}`}, "chat_template: found 1 templates, want one with the name default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readVocabulary(t, 4, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
