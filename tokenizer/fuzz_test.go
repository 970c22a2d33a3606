package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"memra/internal/bounded"
)

// FuzzEncode checks on any bytes, for every kind of vocabulary, what doc.go says always holds.
func FuzzEncode(f *testing.F) {
	for _, s := range golden[[]string](f, "texts.json.gz") {
		f.Add(s)
	}
	for _, s := range []string{"\xff", "a\xc3", "\xe2\x96", "\xf0\x9f\x98", "\xed\xa0\x80", "aaaaaaaaaaaaa hello  hello", "<td><s></s>", ">  <  > <"} {
		f.Add(s)
	}
	toks := tinies(f)
	f.Fuzz(func(t *testing.T, s string) {
		for name, tok := range toks {
			checkEncoding(t, name, tok, s, strings.Contains(name, "spm"))
		}
	})
}

// FuzzFromHF reads any tokenizer.json, and encodes with those that load.
func FuzzFromHF(f *testing.F) {
	f.Add(hfJSON(), "", "abc a")
	f.Add(hfJSON(`"type":"ByteLevel","add_prefix_space":false`, `"type":"Split","pattern":{"Regex":"a+(?!b)|\\p{L}"},"behavior":"MergedWithNext","invert":true`), `{"eos_token":"[/S]"}`, "aab  c")
	for _, name := range []string{"albert", "bert-uncased", "llama2", "plain", "unigram-bytes", "falcon"} {
		raw := string(readHFGolden(f, name).Files["tokenizer.json"])
		_, rest, _ := strings.Cut(raw, `"added_tokens"`) // without the vocabulary, which is long
		if i := strings.Index(rest, `"vocab":`); i > 0 {
			f.Add(`{"added_tokens"`+rest[:i]+`"vocab":{"a":0,"<unk>":1,"[UNK]":2,"b":3,"ab":4},"merges":["a b"]}}`, "", "Ab a\u0301 1")
		}
	}
	f.Fuzz(func(t *testing.T, file, config, text string) {
		files := HFFiles{Tokenizer: []byte(file)}
		if config != "" {
			files.Config = []byte(config)
		}
		var tok *Tokenizer
		var err error
		bounded.Read(t, len(file)+len(config), func() { tok, err = FromHF(files) })
		if err != nil {
			return
		}
		bounded.Read(t, len(file)+len(text), func() { tok.Encode(text, Options{AddSpecial: true, ParseSpecial: true}) })
		for _, o := range []Options{{}, {AddSpecial: true, ParseSpecial: true}} {
			ids := tok.Encode(text, o)
			for _, id := range ids {
				if !tok.valid(id) {
					t.Fatalf("%q has token %d of %d", text, id, tok.Vocab())
				}
			}
			if out := tok.Decode(ids); !utf8.ValidString(out) {
				t.Fatalf("%q decodes to %q", text, out)
			}
		}
	})
}

// FuzzEncodeHF encodes any bytes with every kind of tokenizer.json.
func FuzzEncodeHF(f *testing.F) {
	for _, s := range hfTexts()[:200] {
		f.Add(s)
	}
	f.Add("\xff\x80a\xf0\x9f  \xe2\x96")
	toks := hfTokenizers(f)
	f.Fuzz(func(t *testing.T, s string) {
		for name, tok := range toks {
			raw := ""
			ids := tok.Encode(s, Options{})
			for _, id := range ids {
				if !tok.valid(id) || tok.IsSpecial(id) && id != tok.unknown() {
					t.Fatalf("%s: %q has token %d (%q)", name, s, id, tok.Piece(id))
				}
				raw += string(tok.Piece(id))
			}
			if lossless[name] && raw != s && !strings.Contains(s, "<tool>") {
				t.Fatalf("%s: %q has tokens of the bytes %q", name, s, raw)
			}
			tok.Decode(tok.Encode(s, Options{AddSpecial: true, ParseSpecial: true}))
		}
	})
}

// unknown returns the unknown token of a tokenizer.json's model.
func (t *Tokenizer) unknown() int32 {
	switch m := t.model.(*pipeline).model.(type) {
	case *unigram:
		return m.unknown
	case *wordPiece:
		return m.unknown
	case *charBPE:
		return m.unknown
	case *bpe:
		return m.unknown
	}
	return None
}

// FuzzRegex compiles any pattern, and compares what matches with Go's engine where both know the pattern and mean the same.
func FuzzRegex(f *testing.F) {
	for _, p := range []string{`a+b?`, `(?:a|b)*?c`, `[^a-c\n]+`, `x{2,3}(?!y)`, `(?i:k)|a++`, `\p{L}\P{N}?`, `^a|b$`} {
		f.Add(p, "aab xxy K\n b")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		r, err := compileRegex(pattern)
		if err != nil || len(r.code) > 500 {
			return
		}
		last := 0
		var got [][]int
		r.matches(text, func(start, end int) {
			if start < last || end <= start || end > len(text) {
				t.Fatalf("%s in %q matches [%d, %d) after %d", pattern, text, start, end, last)
			}
			last = end
			got = append(got, []int{start, end})
		})
		if strings.ContainsAny(pattern, `^$\(?&[]{}`) || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			return
		}
		if g, err := regexp.Compile(pattern); err == nil && !slices.EqualFunc(got, g.FindAllStringIndex(text, -1), slices.Equal) {
			t.Fatalf("%s in %q matches %v, want %v", pattern, text, got, g.FindAllStringIndex(text, -1))
		}
	})
}

func checkEncoding(t *testing.T, name string, tok *Tokenizer, s string, spm bool) {
	t.Helper()
	ids := tok.Encode(s, Options{})
	var raw []byte
	emitted := ""
	d := tok.Detokenizer(DecodeOptions{})
	for _, id := range ids {
		if !tok.valid(id) || tok.IsSpecial(id) && tok.text(id) != "<unk>" {
			t.Fatalf("%s: %q has token %d (%q), which plain text never has", name, s, id, tok.Piece(id))
		}
		raw = append(raw, tok.Piece(id)...)
		text := d.Next(id)
		if !utf8.ValidString(text) {
			t.Fatalf("%s: %q: the detokenizer emitted %q", name, s, text)
		}
		emitted += text
	}
	emitted += d.Flush()
	want := s
	if spm {
		want = strings.ReplaceAll(want, escapedSpace, " ")
	}
	if decoded := tok.Decode(ids); decoded != emitted || utf8.ValidString(s) && decoded != want {
		t.Fatalf("%s: %q has tokens %v, which decode to %q and token by token to %q", name, s, ids, decoded, emitted)
	}
	if !tok.lead.space && string(raw) != want {
		t.Fatalf("%s: %q has tokens %v of the bytes %q", name, s, ids, raw)
	}
	tok.Encode(s, Options{AddSpecial: true, ParseSpecial: true})
}
