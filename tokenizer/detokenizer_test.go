package tokenizer

import (
	"strings"
	"testing"
)

func TestInvalidUTF8BecomesReplacementCharacters(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"", ""},
		{"a\xff\xfeb", "a\uFFFD\uFFFDb"},
		{"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd"}, // Unicode 15, table 3-8
		{"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82A", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},           // table 3-9: overlong
		{"\xED\xA0\x80\xED\xBF\xBF\xED\xAFA", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},           // table 3-10: surrogates
		{"\xF4\x91\x92\x93\xFFA\x80\xBFB", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},                   // table 3-11: beyond U+10FFFF
		{"\xE2\x82", "\uFFFD"},
		{"\xF0\x9F\x98", "\uFFFD"},
		{"é😀\xF0\x9F", "é😀\uFFFD"},
	} {
		if got := lossy([]byte(c.bytes)); got != c.want {
			t.Errorf("%x is %q, want %q", c.bytes, got, c.want)
		}
		tok := tinyBPE(t, "gpt-2")
		d := tok.Detokenizer(DecodeOptions{})
		var got strings.Builder
		for _, b := range []byte(c.bytes) {
			got.WriteString(d.Next(tok.model.(*bpe).byteID[b]))
		}
		got.WriteString(d.Flush())
		if got.String() != c.want {
			t.Errorf("%x byte by byte is %q, want %q", c.bytes, got.String(), c.want)
		}
	}
}

func TestCodePointsAreHeldBackUntilWhole(t *testing.T) {
	tok := tinyBPE(t, "gpt-2")
	bytes := tok.model.(*bpe).byteID
	d := tok.Detokenizer(DecodeOptions{})
	for i, want := range []string{"", "", "", "😀", "", "é", "a"} {
		if got := d.Next(bytes["😀éa"[i]]); got != want {
			t.Errorf("byte %d gives %q, want %q", i, got, want)
		}
	}
	if got := d.Flush(); got != "" {
		t.Errorf("nothing is left, but Flush gives %q", got)
	}
	if d.Next(bytes[0xE2]) != "" || d.Next(tok.BOS()) != "" || d.Flush() != "\uFFFD" || d.Flush() != "" {
		t.Error("an incomplete code point is not one U+FFFD at the end")
	}
}
