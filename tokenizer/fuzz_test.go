package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"
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
