package tokenizer

import (
	"fmt"
	"strings"
	"testing"

	"memra/internal/bounded"
)

func TestATokenizerOfCrumbsIsReadWithinBoundsOrRefused(t *testing.T) {
	build := func(n int, item string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, strings.ReplaceAll(item, "#", "%[1]x"), i, i+10)
		}
		return b.String()
	}
	const n = 400_000
	for _, c := range []struct {
		name string
		file string
		want string // what its error says; "": it is read
	}{
		{"tokens", hfJSON(`"vocab":{`, `"vocab":{`+build(n, `"#":%[2]d,`)), ""},
		{"words", hfJSON(`"type":"BPE","vocab":{`, `"type":"WordPiece","unk_token":"a","vocab":{`+build(n, `"#":%[2]d,`), `,"merges":["a b",["ab","c"]]`, ``), ""},
		{"scored tokens", hfJSON(`"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"abc":4},"merges":["a b",["ab","c"]]`, `"type":"Unigram","unk_id":0,"vocab":[`+build(n, `["#",-1],`)+`["x",0]]`,
			`{"id":5,"content":"<s>","special":true},{"id":6,"content":"[/S]","special":true}`, ``), ""},
		{"merges of many tokens", hfJSON(`"vocab":{`, `"vocab":{`+build(n, `"#":%[2]d,`), `"merges":[`, `"merges":[`+strings.Repeat(`"a b",`, 900_000)), "no model has as many"},
		{"merges", hfJSON(`"merges":["a b",["ab","c"]]`, `"merges":[`+strings.Repeat(`"a b",`, 999_000)+`"a b"]`), ""},
		{"too many merges", hfJSON(`"merges":["a b",["ab","c"]]`, `"merges":[`+strings.Repeat(`"a b",`, 1_000_000)+`"a b"]`), "no model has as many"},
		{"added tokens", hfJSON(`"added_tokens":[`, `"added_tokens":[`+build(n/2, `{"id":%[2]d,"content":"#"},`)), "200002 added tokens"},
		{"normalisers", hfJSON(`"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[`+strings.Repeat(`{"type":"NFC"},`, 500_000)+`{"type":"NFC"}]}`), "a sequence of 500002 components"},
		{"splits", hfJSON(`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}`, `"pre_tokenizer":{"type":"Sequence","pretokenizers":[`+
			strings.Repeat(`{"type":"Split","pattern":{"Regex":"a"},"behavior":"Isolated","invert":false},`, 50_000)+`{"type":"ByteLevel","add_prefix_space":false}]}`), "a sequence of 50002 components"},
		{"a pattern", hfJSON(`"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}`,
			`"pre_tokenizer":{"type":"Split","pattern":{"Regex":"`+strings.Repeat(`(?:a{1000}|b)`, 100_000)+`"},"behavior":"Isolated","invert":false}`), "it has 1300000 bytes"},
		{"what is not read", hfJSON(`"normalizer":null`, `"normalizer":null,"x":[`+strings.Repeat(`0,`, 4_000_000)+`0]`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tok *Tokenizer
			var err error
			bounded.Read(t, len(c.file), func() { tok, err = FromHF(HFFiles{Tokenizer: []byte(c.file)}) })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 500) {
				t.Fatalf("error %.500v, want %q", err, c.want)
			}
			if err == nil {
				bounded.Read(t, len(c.file)+1000, func() { tok.Encode(strings.Repeat("abc abcabc ", 100), Options{}) })
			}
		})
	}
}
