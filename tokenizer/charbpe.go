package tokenizer

import (
	"hash/maphash"
	"strings"
	"unicode/utf8"
)

// charBPE is BPE over characters: each is a token, and neighbours merge in the order of a list. A character without a token
// becomes its bytes where the vocabulary has them, else the unknown token, or nothing where there is none.
//
// The models that work this way write spaces as U+2581 and mostly take a whole text for a word. Cutting it where no merge
// can stretch across (see unglued) changes nothing and keeps the words short.
type charBPE struct {
	chars   *texts
	pairs   pairs
	byteID  [256]int32 // all None if the vocabulary has no bytes
	unknown int32      // None: a character without a token is skipped
	fuse    bool       // one unknown token for a run of such characters
	whole   bool       // a word that is a token is that token, whatever the merges say
	glued   map[rune]bool
}

func (c *charBPE) pair(_ string, l, r *symbol) (int32, uint32) {
	s := c.pairs.slot(l.id, r.id)
	return s.id, s.rank
}

func (c *charBPE) word(dst []int32, word string, x *scratch) []int32 {
	if c.whole {
		if id := c.chars.find(word); id != None {
			return append(dst, id)
		}
	}
	if c.glued == nil {
		return c.merge(dst, word, x)
	}
	if x.parts == nil {
		x.parts = &recent{seed: maphash.MakeSeed()}
	}
	part := func(dst []int32, part string) []int32 { return c.merge(dst, part, x) }
	unglued(word, c.glued, func(piece string) {
		if len(piece) == len(word) {
			dst = c.merge(dst, word, x)
		} else {
			dst = x.parts.encode(dst, piece, part)
		}
	})
	return dst
}

func (c *charBPE) merge(dst []int32, word string, x *scratch) []int32 {
	m := &x.merger
	m.reset(len(word))
	missing := false
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		id := c.chars.find(word[i : i+n])
		switch {
		case id != None:
			m.add(i, i+n, id)
		case c.byteID[0] != None:
			for k := range n {
				m.add(i+k, i+k+1, c.byteID[word[i+k]])
			}
		case c.unknown != None && !(missing && c.fuse):
			m.add(i, i+n, c.unknown)
		}
		missing = id == None
		i += n
	}
	m.merge(word, c)
	for y := range m.all() {
		dst = append(dst, y.id)
	}
	return dst
}

// newCharBPE builds the model of the tokens that text can become, which must have been inserted in chars.
func newCharBPE(chars *texts, merges [][2]string) (*charBPE, error) {
	c := &charBPE{chars: chars, pairs: newPairs(len(merges)), unknown: None}
	if chars.find(escapedSpace) != None { // else a space may be one of a run of unknown characters
		c.glued = map[rune]bool{}
	}
	for rank, m := range merges {
		if err := c.pairs.merge(chars, rank, m[0], m[1]); err != nil {
			return nil, err
		}
		if c.glued != nil {
			glue(c.glued, m[0]+m[1])
		}
	}
	return c, nil
}

// gemma4FromGGUF is a vocabulary of kind "gemma4". Its merges are written with a space between two tokens, so that none has a
// line break; a run of line breaks is the token of that run, if there is one.
func gemma4FromGGUF(c *Config) (*pipeline, error) {
	chars := newTexts(c.Tokens)
	for id := range c.Tokens {
		if y := c.typeOf(id); mergeable(y) && y != Byte {
			chars.insert(int32(id))
		}
	}
	merges, err := cutMerges(c.Merges)
	if err != nil {
		return nil, err
	}
	b, err := newCharBPE(chars, merges)
	if err != nil {
		return nil, err
	}
	if b.byteID, _, err = c.bytes(); err != nil {
		return nil, err
	}
	b.unknown, b.fuse = c.UNK, true
	breaks := isolate(func(s string) int { return len(s) - len(strings.TrimLeft(s, "\n")) })
	escape := func(s string) string { return strings.ReplaceAll(s, " ", escapedSpace) }
	return newPipeline(escape, scanned(breaks), &linesWhole{b}), nil
}

// linesWhole is charBPE with a token for a run of line breaks.
type linesWhole struct{ *charBPE }

func (l *linesWhole) word(dst []int32, word string, x *scratch) []int32 {
	if word[0] == '\n' {
		if id := l.chars.find(word); id != None {
			return append(dst, id)
		}
	}
	return l.charBPE.word(dst, word, x)
}
