package tokenizer

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"memra/gguf"
)

func TestTextOfSpecialTokensIsATokenOnlyWhenAsked(t *testing.T) {
	for name, tok := range tinies(t) {
		text := "<s>a</s>"
		for _, id := range tok.Encode(text, Options{}) {
			if tok.IsSpecial(id) {
				t.Errorf("%s: plain %q has the special token %q", name, text, tok.Piece(id))
			}
		}
		ids := tok.Encode(text, Options{ParseSpecial: true})
		if ids[0] != tok.BOS() || ids[len(ids)-1] != tok.EOS() {
			t.Errorf("%s: %q with special tokens is %v, want it between %d and %d", name, text, ids, tok.BOS(), tok.EOS())
		}
		if got := tok.Decode(ids); got != "a" {
			t.Errorf("%s: %v decodes to %q, want special tokens silent", name, ids, got)
		}
		d := tok.Detokenizer(DecodeOptions{Special: true})
		got := ""
		for _, id := range ids {
			got += d.Next(id)
		}
		if got != text {
			t.Errorf("%s: %v decodes with special tokens to %q, want %q", name, ids, got, text)
		}
	}
}

func TestAddedTokensThatAreTextAreAlwaysFound(t *testing.T) {
	for name, tok := range tinies(t) {
		for _, o := range []Options{{}, {ParseSpecial: true}} {
			if ids := tok.Encode("a<td>a", o); !slices.Contains(ids, 3) {
				t.Errorf("%s: a<td>a is %v, want token 3 among them", name, ids)
			}
		}
	}
}

func TestStartAndEndTokensAreAddedAsTheFileSays(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name       string
		config     Config
		bos, eos   *bool
		start, end bool
	}{
		{"SentencePiece starts by itself", tinySPMConfig(false), nil, nil, true, false},
		{"SentencePiece told not to", tinySPMConfig(false), &no, nil, false, false},
		{"GPT-2's kind does not start", tinyBPEConfig("gpt-2"), nil, nil, false, false},
		{"Llama 3's starts", tinyBPEConfig("llama-bpe"), nil, nil, true, false},
		{"told to do both", tinyBPEConfig("gpt-2"), &yes, &yes, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.AddBOS, c.config.AddEOS = c.bos, c.eos
			tok, err := New(c.config)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"", "hello"} {
				want := tok.Encode(text, Options{})
				if c.start {
					want = slices.Concat([]int32{tok.BOS()}, want)
				}
				if c.end {
					want = append(want, tok.EOS())
				}
				if got := tok.Encode(text, Options{AddSpecial: true}); !slices.Equal(got, want) {
					t.Errorf("%q is %v, want %v", text, got, want)
				}
			}
			if tok.AddsBOS() != c.start || tok.AddsEOS() != c.end {
				t.Errorf("AddsBOS %v, AddsEOS %v, want %v, %v", tok.AddsBOS(), tok.AddsEOS(), c.start, c.end)
			}
		})
	}
}

func TestWordsThatAreTokensComeBeforeMergesWhereTheKindSaysSo(t *testing.T) {
	c := tinyBPEConfig("")
	c.Tokens, c.Types = append(c.Tokens, "world", "abc"), append(c.Types, Normal, Control)
	for pre, whole := range map[string]bool{"gpt-2": false, "llama-bpe": true} {
		c.Pre = pre
		tok, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if ids := tok.Encode("world", Options{}); (len(ids) == 1) != whole {
			t.Errorf("%s: world is %v", pre, ids)
		}
		if ids := tok.Encode("abc", Options{}); len(ids) != 3 {
			t.Errorf("%s: abc, a special token's text, is %v", pre, ids)
		}
	}
}

func TestBytesWithoutATokenVanishAndTheirNeighboursMerge(t *testing.T) {
	c := tinyBPEConfig("gpt-2")
	c.Types[slices.Index(c.Tokens, string(letterOf['!']))] = Unknown
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Encode("-!-", Options{}), tok.Encode("--", Options{}); !slices.Equal(got, want) {
		t.Errorf("-!- is %v, want %v as --", got, want)
	}
}

func TestCharactersWithoutATokenOrBytesBecomeOneUnknown(t *testing.T) {
	c := tinySPMConfig(false)
	for id := range c.Types {
		if c.Types[id] == Byte {
			c.Types[id] = Normal
		}
	}
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a := tok.Encode("a", Options{})[0]
	if got, want := tok.Encode("日本a語", Options{}), []int32{0, a, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSpaceInFrontIsAddedAndTakenBack(t *testing.T) {
	tok := tinySPM(t, true)
	hello := int32(slices.Index(tinySPMConfig(true).Tokens, "▁hello"))
	if got, want := tok.Encode("hello</s>hello", Options{ParseSpecial: true}), []int32{hello, tok.EOS(), hello}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := tok.Decode([]int32{hello, hello}); got != "hello hello" {
		t.Errorf("decodes to %q", got)
	}
	if got := tok.Detokenizer(DecodeOptions{Continues: true}).Next(hello); got != " hello" {
		t.Errorf("continuing a text it is %q", got)
	}
}

func TestAddedTokensSwallowWhiteSpaceWhereTheySay(t *testing.T) {
	c := tinyBPEConfig("gpt-2")
	c.LStrip, c.RStrip = []int32{0, 3}, []int32{3, 2}
	tok, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a \n <td> \t a":        "a<td>a",
		"a <|im_end|> a":        "a <|im_end|>a",
		"a <s> a":               "a<s> a",
		" <td> ":                "<td>",
		"<|im_end|> <|im_end|>": "<|im_end|><|im_end|>",
	} {
		var got string
		for _, id := range tok.Encode(text, Options{ParseSpecial: true}) {
			got += string(tok.Piece(id))
		}
		if got != want {
			t.Errorf("%q is encoded as %q, want %q", text, got, want)
		}
	}
}

func TestEndTokensAreKnownByIDAndByText(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []string
		types  []Type
		eos    int32
		ends   []int32
	}{
		{"the file's own", []string{"a", "b"}, []Type{Normal, Normal}, 1, []int32{1}},
		{"a turn's end that the file does not name", []string{"a", "<|im_end|>", "<|endoftext|>"}, []Type{Normal, Control, Control}, 2, []int32{1, 2}},
		{"a turn's end that a converter took for text", []string{"<end_of_turn>", "b"}, []Type{UserDefined, Normal}, None, []int32{0}},
		{"a tag of HTML does not end", []string{"<s>", "</s>", "<eos>"}, []Type{UserDefined, UserDefined, Control}, 2, []int32{2}},
		{"Harmony goes on after a message", []string{"<|return|>", "<|call|>", "<|end|>"}, []Type{Control, Control, Control}, 0, []int32{0, 1}},
		{"elsewhere <|end|> ends", []string{"<|user|>", "<|end|>"}, []Type{Control, Control}, None, []int32{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := absent()
			config.Model, config.Pre, config.Tokens, config.Types, config.EOS = "gpt2", "gpt-2", c.tokens, c.types, c.eos
			tok, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			var ends []int32
			for id := range int32(len(c.tokens)) {
				if tok.IsEnd(id) {
					ends = append(ends, id)
				}
			}
			if !slices.Equal(ends, c.ends) {
				t.Errorf("ends are %v, want %v", ends, c.ends)
			}
		})
	}
}

func TestIDsOutsideTheVocabularyAreNothing(t *testing.T) {
	tok := tinySPM(t, true)
	for _, id := range []int32{-1, int32(tok.Vocab()), math.MaxInt32, math.MinInt32} {
		if tok.IsEnd(id) || tok.IsSpecial(id) || len(tok.Piece(id)) > 0 || tok.Decode([]int32{id}) != "" {
			t.Errorf("token %d is something", id)
		}
	}
}

func TestBadVocabulariesAreRefusedByName(t *testing.T) {
	bpe, spm := tinyBPEConfig, tinySPMConfig
	yes := true
	for _, c := range []struct {
		name   string
		config Config
		change func(*Config)
		want   []string // parts of the message
	}{
		{"an unknown kind", bpe("gpt-2"), func(c *Config) { c.Model = "rwkv" }, []string{`"rwkv"`, "gpt2", "llama"}},
		{"an unknown pre-tokeniser", bpe("klingon"), nil, []string{`"klingon"`, "qwen2", "smollm"}},
		{"no pre-tokeniser", bpe(""), nil, []string{"tokenizer.ggml.pre", "qwen2"}},
		{"a default pre-tokeniser", bpe("default"), nil, []string{`"default"`, "convert"}},
		{"no tokens", bpe("gpt-2"), func(c *Config) { c.Tokens = nil }, []string{"no tokens"}},
		{"too few types", bpe("gpt-2"), func(c *Config) { c.Types = c.Types[:5] }, []string{"token_type", "5"}},
		{"too few scores", spm(true), func(c *Config) { c.Scores = c.Scores[:5] }, []string{"scores", "5"}},
		{"no scores", spm(true), func(c *Config) { c.Scores = nil }, []string{"scores"}},
		{"a score that is no number", spm(true), func(c *Config) { c.Scores[7] = float32(math.NaN()) }, []string{"token 7"}},
		{"a start token outside", bpe("gpt-2"), func(c *Config) { c.BOS = 9999 }, []string{"bos_token_id", "9999"}},
		{"a negative end token", bpe("gpt-2"), func(c *Config) { c.EOS = -2 }, []string{"eos_token_id", "-2"}},
		{"a start token that is missing", bpe("llama-bpe"), func(c *Config) { c.BOS = None }, []string{"start token"}},
		{"an end token that is missing", bpe("gpt-2"), func(c *Config) { c.EOS, c.AddEOS = None, &yes }, []string{"end token"}},
		{"a merge without a space", bpe("gpt-2"), func(c *Config) { c.Merges[3] = "ll" }, []string{"merge 3", `"ll"`}},
		{"an empty merge", bpe("gpt-2"), func(c *Config) { c.Merges[3] = "" }, []string{"merge 3"}},
		{"a merge to no token", bpe("gpt-2"), func(c *Config) { c.Merges[3] = "q q" }, []string{"merge 3", `"q q"`}},
		{"a byte token without a byte", spm(true), func(c *Config) { c.Tokens[5] = "<0xGG>" }, []string{"token 5", "<0xGG>"}},
		{"bytes that are not all there", spm(true), func(c *Config) { c.Types[5] = Normal }, []string{"255 bytes"}},
		{"neither bytes nor an unknown token", spm(true), func(c *Config) {
			c.UNK = None
			for i := range c.Types {
				c.Types[i] = Normal
			}
		}, []string{"unknown token"}},
		{"stripping outside", bpe("gpt-2"), func(c *Config) { c.RStrip = []int32{-1} }, []string{"-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != nil {
				c.change(&c.config)
			}
			_, err := New(c.config)
			if err == nil {
				t.Fatal("it loads")
			}
			for _, part := range append(c.want, "tokenizer: ") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v: does not say %s", err, part)
				}
			}
		})
	}
}

// TestRealVocabulariesLoadOrAreRefused covers the files that have no expected ids.
func TestRealVocabulariesLoadOrAreRefused(t *testing.T) {
	tok := openVocab(t, filepath.Join(vocabFolder, "ggml-vocab-baichuan.gguf"), "")
	checkEncoding(t, "baichuan", tok, "Hello, 世界 😀  \n", true)
	neox := filepath.Join(vocabFolder, "ggml-vocab-gpt-neox.gguf")
	f, err := gguf.Open(neox)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := FromGGUF(f.Meta); err == nil || !strings.Contains(err.Error(), "tokenizer.ggml.pre") {
		t.Errorf("a file that names no pre-tokeniser: %v", err)
	}
	tok = openVocab(t, neox, "olmo")
	checkEncoding(t, "gpt-neox", tok, "Hello, 世界 😀     \n", false)
}

// TestRealTextsComeBack decodes what real vocabularies encode.
func TestRealTextsComeBack(t *testing.T) {
	for name, spm := range map[string]bool{"gpt-2": false, "llama-spm": true, "baichuan": true} {
		t.Run(name, func(t *testing.T) {
			tok := openVocab(t, filepath.Join(vocabFolder, "ggml-vocab-"+name+".gguf"), "")
			for _, text := range golden[[]string](t, "texts.json.gz") {
				checkEncoding(t, name, tok, text, spm)
			}
		})
	}
}

func ExampleTokenizer() {
	c := Config{Model: "gpt2", Pre: "gpt-2", BOS: None, EOS: 3, EOT: None, EOM: None, UNK: None,
		Tokens: []string{"h", "i", "hi", "<|end|>", "Ġ", "Ġhi"}, Types: []Type{Normal, Normal, Normal, Control, Normal, Normal},
		Merges: []string{"h i", "Ġ hi"},
	}
	t, err := New(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := t.Encode("hi hi<|end|>", Options{ParseSpecial: true})
	fmt.Println(ids, t.IsEnd(ids[2]), t.Decode(ids))
	// Output: [2 5 3] true hi hi
}

func TestManyGoroutinesMayEncodeAtOnce(t *testing.T) {
	texts := golden[[]string](t, "texts.json.gz")
	for _, tok := range []*Tokenizer{tinyBPE(t, "gpt-2"), tinySPM(t, true)} {
		var want [][]int32
		for _, text := range texts {
			want = append(want, tok.Encode(text, Options{}))
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for i, text := range texts {
					if got := tok.Encode(text, Options{}); !slices.Equal(got, want[i]) {
						t.Errorf("%q is %v, alone %v", text, got, want[i])
					}
				}
			})
		}
		wait.Wait()
	}
}
