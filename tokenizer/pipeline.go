package tokenizer

import "sync"

// stretch is text between added tokens, or between one and an end of the text.
type stretch struct {
	text    string
	first   bool // the text begins with it
	special bool // the text of a special token stands for that token
}

// wordModel turns a word into tokens. What it makes of a word depends on the word alone.
type wordModel interface {
	word(dst []int32, word string, x *scratch) []int32
}

// pipeline is an encoder of parts, as tokenizer.json describes it: the text is normalised, tokens that are meant to be
// found in normalised text are taken out, the rest is cut into words, and each word becomes tokens.
type pipeline struct {
	normalise normaliser // nil: the text as it is
	plain     *added     // tokens found in normalised text, nil for none
	special   *added     // these and the special ones
	cut       cutter     // nil: all of the text is one word
	model     wordModel
	scratch   sync.Pool // *scratch
}

func newPipeline(n normaliser, c cutter, m wordModel) *pipeline {
	p := &pipeline{normalise: n, cut: c, model: m}
	p.scratch.New = newScratch
	return p
}

func (p *pipeline) encode(dst []int32, s stretch) []int32 {
	if p.normalise != nil {
		s.text = p.normalise(s.text)
	}
	x := p.scratch.Get().(*scratch)
	defer p.scratch.Put(x)
	tokens := p.plain
	if s.special {
		tokens = p.special
	}
	if tokens == nil {
		return p.words(dst, s.text, s.first, x)
	}
	for at := 0; at < len(s.text); {
		id, start, end := tokens.find(s.text, at)
		if start > at {
			dst = p.words(dst, s.text[at:start], s.first && at == 0, x)
		}
		if id != None {
			dst = append(dst, id)
		}
		at = end
	}
	return dst
}

func (p *pipeline) words(dst []int32, text string, first bool, x *scratch) []int32 {
	word := func(dst []int32, word string) []int32 { return p.model.word(dst, word, x) }
	if p.cut == nil {
		return x.recent.encode(dst, text, word)
	}
	p.cut(text, first, func(piece string, _ bool) {
		if piece != "" {
			dst = x.recent.encode(dst, piece, word)
		}
	})
	return dst
}
