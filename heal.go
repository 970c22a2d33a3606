package memra

import (
	"strings"
	"unicode/utf8"

	"memra/sample"
	"memra/tokenizer"
)

// prompted is the prompt of a request.
type prompted struct {
	tokens []int32
	left   int   // of those around a gap: had no room
	healed int32 // was taken back: the answer's first token has its text, and perhaps more; None: none was
}

// takeBack takes back the last token of a text that is to be continued, for the token that the text would have had there may be a longer
// one: "{" and a line feed are one token, "{" alone is another, which means that no line feed follows. It returns None for tokens that
// stand for no text.
func (m *Model) takeBack(tokens []int32) ([]int32, int32) {
	if len(tokens) == 0 {
		return tokens, tokenizer.None
	}
	n := len(tokens) - 1
	last := tokens[n]
	if text := m.Piece(last); len(text) == 0 || !utf8.Valid(text) || m.tokenizer.IsSpecial(last) {
		return tokens, tokenizer.None
	}
	return tokens[:n], last
}

// healing asks for the likeliest tokens where one was taken back: among so many there is a longer one, or it is not worth having.
func healing(d sample.Draw, healed int32) sample.Draw {
	d.Given, d.Token, d.LogProb, d.Top = true, healed, true, max(d.Top, 256)
	return d
}

// heal chooses, of what healing asked for, the likeliest token that begins with the text of the one that was taken back; it may be that
// one itself. What d did not ask for is left out.
func (m *Model) heal(p sample.Pick, d sample.Draw) sample.Pick {
	text := string(m.Piece(p.Token))
	for _, t := range p.Top {
		if !m.tokenizer.IsSpecial(t.Token) && !m.tokenizer.IsEnd(t.Token) && strings.HasPrefix(string(m.Piece(t.Token)), text) {
			p.Token, p.LogProb = t.Token, t.LogProb
			break
		}
	}
	if p.Top = p.Top[:min(len(p.Top), d.Top)]; !d.LogProb {
		p.LogProb = 0
	}
	return p
}
