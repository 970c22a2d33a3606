package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// DecodeOptions says how tokens become text. The zero value is for tokens that begin a text.
type DecodeOptions struct {
	Special   bool // write the text of special tokens; otherwise they are silent
	Continues bool // the tokens follow text: keep the space that SentencePiece puts in front of a first word
}

// Detokenizer turns tokens into text one at a time. It emits whole code points only: bytes of one that is not complete
// wait for the next token. A byte sequence that is not UTF-8 becomes U+FFFD, one for each maximal part, as in Go's and
// Rust's lossy conversions. The zero value is not usable; see Tokenizer.Detokenizer.
type Detokenizer struct {
	t       *Tokenizer
	special bool
	begins  bool   // the next token begins a text: what Encode put in front is taken from it
	held    []byte // the beginning of a code point
}

// Detokenizer returns a detokenizer. Each belongs to one stream of tokens.
func (t *Tokenizer) Detokenizer(o DecodeOptions) *Detokenizer {
	return &Detokenizer{t: t, special: o.Special, begins: !o.Continues}
}

// Next takes a token and returns the text that is complete with it, often "".
func (d *Detokenizer) Next(id int32) string {
	piece := d.t.text(id)
	switch y := d.t.typeOf(id); {
	case y == Control || y == Unknown:
		if !d.special {
			d.begins = d.begins || d.t.lead.again
			return ""
		}
		d.begins = d.t.lead.again
	case y == UserDefined && d.t.lead.again:
		d.begins = true
	case d.begins && piece != "":
		piece, d.begins = d.t.lead.take(piece), false
	}
	if len(d.held) > 0 || !utf8.ValidString(piece) {
		return d.whole(piece)
	}
	return piece
}

// take returns the text of a first token without what was put in front of it.
func (l lead) take(piece string) string {
	switch {
	case l.all:
		return strings.ReplaceAll(piece, " ", "")
	case l.space:
		return strings.TrimPrefix(piece, " ")
	}
	return piece
}

// whole returns the complete code points of the held bytes and piece, and holds back the rest.
func (d *Detokenizer) whole(piece string) string {
	bytes := append(d.held, piece...)
	n := len(bytes) - incomplete(bytes)
	text := lossy(bytes[:n])
	d.held = append(bytes[:0], bytes[n:]...)
	return text
}

// Flush ends the text: it returns U+FFFD if the beginning of a code point is still held back, else "".
func (d *Detokenizer) Flush() string {
	if len(d.held) == 0 {
		return ""
	}
	d.held = d.held[:0]
	return "\uFFFD"
}

// incomplete returns how many bytes at the end of b begin a code point that more bytes could complete.
func incomplete(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if prefixLen(tail) == n && !utf8.FullRune(tail) {
			return n
		}
		return 0
	}
	return 0
}

// lossy converts bytes to UTF-8: each maximal sequence that begins a code point without completing it, and each byte
// that begins none, becomes U+FFFD.
func lossy(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = max(1, prefixLen(b))
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// prefixLen returns the length of the longest prefix of b that some code point's encoding begins with (Unicode 15, table
// 3-7).
func prefixLen(b []byte) int {
	lo, hi, want := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c < 0x80:
		return 1
	case c >= 0xC2 && c <= 0xDF:
		want = 2
	case c >= 0xE0 && c <= 0xEF:
		want = 3
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		want = 4
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for n < want && n < len(b) && b[n] >= lo && b[n] <= hi {
		n, lo, hi = n+1, 0x80, 0xBF
	}
	if want == 0 {
		return 0
	}
	return n
}
