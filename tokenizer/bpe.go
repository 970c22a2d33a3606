package tokenizer

import (
	"fmt"
	"strings"
	"sync"
)

// bpe is byte-level BPE (tokenizer.ggml.model "gpt2"): a pre-tokeniser cuts the text into words, each word's bytes are
// tokens, and neighbours merge in the order of the file's list.
//
// A byte without a token (files drop those that training never saw) is skipped before merging, as Hugging Face does.
type bpe struct {
	split   []scanner
	byteID  [256]int32 // the token of a single byte, or None
	pairs   pairs
	words   *texts    // by text, where whole words come before merges; else nil
	scratch sync.Pool // *merger
}

// newBPE builds the encoder. text holds the bytes of each token.
func newBPE(c *Config, pre preTokenizer, text []string) (*bpe, error) {
	b := &bpe{split: pre.split, pairs: newPairs(len(c.Merges))}
	b.scratch.New = newScratch
	for i := range b.byteID {
		b.byteID[i] = None
	}
	escaped := newTexts(c.Tokens)
	for id := range c.Tokens {
		if !mergeable(c.typeOf(id)) {
			continue
		}
		escaped.insert(int32(id))
		if len(text[id]) == 1 && b.byteID[text[id][0]] == None {
			b.byteID[text[id][0]] = int32(id)
		}
	}
	for rank, m := range c.Merges {
		cut := 0
		if m != "" {
			cut = 1 + strings.IndexByte(m[1:], ' ')
		}
		if cut == 0 {
			return nil, fmt.Errorf("tokenizer: merge %d is %q, want two tokens with a space between them; convert again", rank, m)
		}
		l, r := escaped.find(m[:cut]), escaped.find(m[cut+1:])
		id := escaped.find(m[:cut] + m[cut+1:])
		if l == None || r == None || id == None {
			return nil, fmt.Errorf("tokenizer: merge %d is %q, but the vocabulary lacks a part or the whole; convert again", rank, m)
		}
		b.pairs.insert(l, r, id, uint32(rank))
	}
	if pre.wholeWords {
		b.words = newTexts(text)
		for id := range text {
			if mergeable(c.typeOf(id)) {
				b.words.insert(int32(id))
			}
		}
	}
	return b, nil
}

// mergeable tells whether merging text can make a token of a type. Added tokens are found before that, others never.
func mergeable(t Type) bool { return t != Control && t != Unknown && t != UserDefined }

func (b *bpe) pair(_ string, l, r *symbol) (int32, uint32) {
	s := b.pairs.slot(l.id, r.id)
	return s.id, s.rank
}

// encode appends the tokens of a stretch of plain text.
func (b *bpe) encode(dst []int32, text string) []int32 {
	x := b.scratch.Get().(*scratch)
	defer b.scratch.Put(x)
	encode := func(dst []int32, word string) []int32 { return b.word(dst, word, &x.merger) }
	split(text, b.split, func(word string) { dst = x.recent.encode(dst, word, encode) })
	return dst
}

// word appends the tokens of a word.
func (b *bpe) word(dst []int32, word string, m *merger) []int32 {
	if b.words != nil {
		if id := b.words.find(word); id != None {
			return append(dst, id)
		}
	}
	m.reset(len(word))
	for i := range len(word) {
		if id := b.byteID[word[i]]; id != None {
			m.add(i, i+1, id)
		}
	}
	m.merge(word, b)
	for y := range m.all() {
		dst = append(dst, y.id)
	}
	return dst
}
