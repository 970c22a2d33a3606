package memra

import (
	"strings"
	"unicode/utf8"

	"memra/engine"
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

// healing asks for the likeliest tokens where one was taken back: among so many there is a longer one, or it is not worth having. Of
// them it chooses the likeliest that begins with the text of the one that was taken back; it may be that one itself. What d did
// not ask for is left out.
func (m *Model) healing(healed int32, d sample.Draw) *engine.First {
	text := string(m.Piece(healed))
	return &engine.First{
		Ask: func(ask sample.Draw) sample.Draw {
			ask.Given, ask.Token, ask.LogProb, ask.Top, ask.Filtered = true, healed, true, max(d.Top, 256), false // it is not drawn
			return ask
		},
		Choose: func(p sample.Pick) sample.Pick {
			for _, t := range p.Top {
				if !m.tokenizer.IsSpecial(t.Token) && !m.tokenizer.IsEnd(t.Token) && !d.Bans(t.Token) && strings.HasPrefix(string(m.Piece(t.Token)), text) {
					p.Token, p.LogProb = t.Token, t.LogProb
					break
				}
			}
			if p.Top = p.Top[:min(len(p.Top), d.Top)]; !d.LogProb {
				p.LogProb = 0
			}
			return p
		},
	}
}
