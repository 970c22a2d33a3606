package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hfJSON is a tokenizer.json of a few tokens, with parts to replace: old and new by turns.
func hfJSON(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{"added_tokens":[{"id":5,"content":"<s>","special":true},{"id":6,"content":"[/S]","special":true}],
"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"post_processor":null,"decoder":{"type":"ByteLevel"},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]}}`)
}

func TestUnknownPartsOfTokenizerJSONAreRefusedByName(t *testing.T) {
	const cut = `{"type":"ByteLevel","add_prefix_space":false}`
	regex := func(r string) string {
		return fmt.Sprintf(`{"type":"Split","pattern":{"Regex":%q},"behavior":"Isolated","invert":false}`, r)
	}
	deep := strings.Repeat(`{"type":"Sequence","normalizers":[`, 40) + `{"type":"NFC"}` + strings.Repeat(`]}`, 40)
	for _, c := range []struct {
		name     string
		old, new string
		want     string
	}{
		{"a model", `"BPE"`, `"WordLevel"`, `"WordLevel"`},
		{"a parameter of the model", `"BPE",`, `"BPE","sparkle":1,`, "sparkle"},
		{"dropout", `"BPE",`, `"BPE","dropout":0.1,`, "dropout"},
		{"a suffix", `"BPE",`, `"BPE","end_of_word_suffix":"</w>",`, "</w>"},
		{"a normaliser", `"normalizer":null`, `"normalizer":{"type":"Nmt"}`, "normalizer Nmt"},
		{"a normaliser in a sequence", `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Klingon"}]}`, "Klingon"},
		{"sequences without end", `"normalizer":null`, `"normalizer":` + deep, "deep"},
		{"replacements without end", `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[` + strings.TrimSuffix(strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 50), ",") + `]}`, "times as long"},
		{"replacements without end in tokens", `"decoder":{"type":"ByteLevel"}`, `"decoder":{"type":"Sequence","decoders":[` + strings.TrimSuffix(strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 50), ",") + `]}`, "times as long"},
		{"a pattern of too many choices", cut, regex(`a{1,900}b`), "choices"},
		{"a charsmap that is none", `"normalizer":null`, `"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}`, "charsmap"},
		{"a pre-tokeniser", cut, `{"type":"UnicodeScripts"}`, "pre_tokenizer UnicodeScripts"},
		{"a parameter of a pre-tokeniser", cut, `{"type":"Digits","individual_digits":true,"roman":true}`, "roman"},
		{"bytes of bytes", cut, `{"type":"Sequence","pretokenizers":[` + cut + "," + cut + `]}`, "twice"},
		{"a behaviour", cut, `{"type":"Split","pattern":{"String":"a"},"behavior":"Torn","invert":false}`, `"Torn"`},
		{"a pattern that is none", cut, `{"type":"Split","pattern":{"Glob":"a"},"behavior":"Removed","invert":false}`, "Glob"},
		{"a reference", cut, regex(`(a)\1`), `\1`},
		{"a look behind", cut, regex(`(?<=a)b`), `(?<`},
		{"a long look ahead", cut, regex(`a(?=b*)`), "lookahead"},
		{"a pattern of nothing", cut, regex(`a*`), "nothing at all"},
		{"a property", cut, regex(`\p{Klingon}`), "Klingon"},
		{"a decoder", `"decoder":{"type":"ByteLevel"}`, `"decoder":{"type":"CTC"}`, "decoder CTC"},
		{"a post-processor", `"post_processor":null`, `"post_processor":{"type":"Echo"}`, "post_processor Echo"},
		{"a template without the text", `"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[]}`, "0 times"},
		{"a template's token outside", `"post_processor":null`, `"post_processor":{"type":"BertProcessing","cls":["a",99],"sep":["b",1]}`, "99"},
		{"a merge to no token", `"a b"`, `"b b"`, "merge 0"},
		{"a merge of three", `["ab","c"]`, `["a","b","c"]`, "merge"},
		{"an id far away", `"c":2`, `"c":2000000000`, "2000000000"},
		{"an id taken twice", `"c":2`, `"c":1`, "id 1"},
		{"a negative id", `"c":2`, `"c":-1`, "-1"},
		{"a unigram model without an unknown token", `"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"Unigram","vocab":[["a",-1]]`, "unk_id"},
		{"a score that is none", `"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"Unigram","unk_id":0,"vocab":[["a"]]`, "piece"},
		{"a WordPiece model without an unknown token", `"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"WordPiece","unk_token":"[UNK]","vocab":{"a":0}`, "[UNK]"},
		{"a WordPiece model of long words", `"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"WordPiece","unk_token":"a","max_input_chars_per_word":1000000,"vocab":{"a":0}`, "max_input_chars_per_word"},
		{"a unigram model of long tokens", `"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"Unigram","unk_id":0,"vocab":[["a",-1],["` + strings.Repeat("b", 600) + `",-1]]`, "600 bytes"},
		{"a part twice", `"normalizer":null`, `"normalizer":null,"normalizer":{"type":"NFC"}`, `"normalizer" is there twice`},
		{"a vocabulary twice", `"BPE"`, `"BPE","vocab":{}`, `"vocab" is there twice`},
		{"JSON cut off", `]]}}`, ``, "unexpected end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := hfJSON(c.old, c.new)
			if text == hfJSON() {
				t.Fatal("nothing is replaced")
			}
			_, err := FromHF(HFFiles{Tokenizer: []byte(text)})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokenizer: tokenizer.json: ") {
				t.Errorf("error %v, want one that says %s", err, c.want)
			}
		})
	}
}

func TestNamesOfStartAndEndTokensComeFromTheOtherFiles(t *testing.T) {
	template := `"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},` +
		`{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"x"}}],"special_tokens":{"<s>":{"ids":[5]},"x":{"ids":[6,6]}}}]}`
	for _, c := range []struct {
		name          string
		files         HFFiles
		bos, eos      int32
		before, after []int32
		ends          []int32
	}{
		{"none", HFFiles{}, None, None, nil, nil, nil},
		{"tokenizer_config.json", HFFiles{Config: []byte(`{"bos_token":"<s>","eos_token":{"content":"[/S]"}}`)}, 5, 6, nil, nil, []int32{6}},
		{"an older file beside it", HFFiles{SpecialTokens: []byte(`{"bos_token":"[/S]","eos_token":"[/S]"}`), Config: []byte(`{"bos_token":"<s>","eos_token":null}`)}, 5, 6, nil, nil, []int32{6}},
		{"flags without a post-processor", HFFiles{Config: []byte(`{"bos_token":"<s>","eos_token":"[/S]","add_bos_token":true,"add_eos_token":true}`)}, 5, 6, []int32{5}, []int32{6}, []int32{6}},
		{"a post-processor decides alone", HFFiles{Tokenizer: []byte(hfJSON(`"post_processor":null`, `"post_processor":{"type":"ByteLevel"}`)), Config: []byte(`{"bos_token":"<s>","add_bos_token":true}`)},
			5, None, nil, nil, nil},
		{"a template", HFFiles{Tokenizer: []byte(hfJSON(`"post_processor":null`, template)), Config: []byte(`{"bos_token":"<s>"}`)}, 5, None, []int32{5}, []int32{6, 6}, nil},
		{"more ends", HFFiles{Config: []byte(`{"eos_token":"[/S]"}`), Generation: []byte(`{"eos_token_id":[1,6]}`)}, None, 6, nil, nil, []int32{1, 6}},
		{"one more end", HFFiles{Generation: []byte(`{"eos_token_id":2}`)}, None, None, nil, nil, []int32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.files.Tokenizer == nil {
				c.files.Tokenizer = []byte(hfJSON())
			}
			tok, err := FromHF(c.files)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Concat(c.before, []int32{4, 0}, c.after)
			if got := tok.Encode("abca", Options{AddSpecial: true}); !slices.Equal(got, want) || tok.BOS() != c.bos || tok.EOS() != c.eos {
				t.Errorf("%v between %d and %d, want %v between %d and %d", got, tok.BOS(), tok.EOS(), want, c.bos, c.eos)
			}
			var ends []int32
			for id := range int32(tok.Vocab()) {
				if tok.IsEnd(id) {
					ends = append(ends, id)
				}
			}
			if !slices.Equal(ends, c.ends) {
				t.Errorf("ends are %v, want %v", ends, c.ends)
			}
			if tok.AddsBOS() != (len(c.before) > 0) {
				t.Errorf("AddsBOS is %v", tok.AddsBOS())
			}
		})
	}
	for _, bad := range []HFFiles{
		{Config: []byte(`{"bos_token":"<missing>"}`)}, {Config: []byte(`[`)}, {SpecialTokens: []byte(`{"bos_token":7}`)}, {Generation: []byte(`{"eos_token_id":"x"}`)},
		{Config: []byte(`{"added_tokens_decoder":{"x":{"content":"y"}}}`)},
	} {
		bad.Tokenizer = []byte(hfJSON())
		if _, err := FromHF(bad); err == nil {
			t.Errorf("%s%s%s loads", bad.Config, bad.SpecialTokens, bad.Generation)
		}
	}
}

func TestAddedTokensOfTheConfigCountToo(t *testing.T) {
	tok, err := FromHF(HFFiles{Tokenizer: []byte(hfJSON()), Config: []byte(`{"added_tokens_decoder":{"7":{"content":"bc","lstrip":true},"5":{"content":"<s>","special":true,"rstrip":true}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Encode("<s>  a bc", Options{ParseSpecial: true}), []int32{5, 0, 7}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFoldersWithoutATokenizerAreRefused(t *testing.T) {
	folder := t.TempDir()
	if _, err := OpenHF(folder); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(hfJSON()), 0o600); err != nil {
		t.Fatal(err)
	}
	if tok, err := OpenHF(folder); err != nil || tok.Vocab() != 7 {
		t.Errorf("a folder: %v", err)
	}
}

func TestTextNeverBecomesASpecialTokenOfAUnigramModel(t *testing.T) {
	tok := readHFGolden(t, "t5").open(t)
	for _, id := range tok.Encode("a</s>b<s><mask>", Options{}) {
		if tok.IsSpecial(id) && string(tok.Piece(id)) != "<unk>" {
			t.Errorf("plain text has the token %q", tok.Piece(id))
		}
	}
}
