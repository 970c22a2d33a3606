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
	unknown int32      // stands for bytes without a token; None: they are skipped
	fuse    bool       // one for a run of them
	pairs   pairs
	words   *texts    // by text, where whole words come before merges; else nil
	scratch sync.Pool // *merger
}

// newBPE builds the encoder. tokens are written in GPT-2's alphabet; usable tells which of them text may become.
func newBPE(tokens []string, usable func(id int) bool, merges [][2]string, pre preTokenizer) (*bpe, error) {
	b := &bpe{split: pre.split, unknown: None, pairs: newPairs(len(merges))}
	b.scratch.New = newScratch
	for i := range b.byteID {
		b.byteID[i] = None
	}
	escaped, words := newTexts(tokens), make([]string, len(tokens))
	for id, token := range tokens {
		if !usable(id) {
			continue
		}
		escaped.insert(int32(id))
		text, ok := unescapeBytes(token)
		if !ok {
			continue
		}
		words[id] = text
		if len(text) == 1 && b.byteID[text[0]] == None {
			b.byteID[text[0]] = int32(id)
		}
	}
	for rank, m := range merges {
		if err := b.pairs.merge(escaped, rank, m[0], m[1]); err != nil {
			return nil, err
		}
	}
	if pre.wholeWords {
		b.words = newTexts(words)
		for id := range words {
			b.words.insert(int32(id))
		}
	}
	return b, nil
}

// cutMerges reads merges as GGUF writes them: two tokens with a space between them, of which the first may begin with one.
func cutMerges(all []string) ([][2]string, error) {
	pairs := make([][2]string, len(all))
	for rank, m := range all {
		cut := 0
		if m != "" {
			cut = 1 + strings.IndexByte(m[1:], ' ')
		}
		if cut == 0 {
			return nil, fmt.Errorf("tokenizer: merge %d is %q, want two tokens with a space between them; convert again", rank, m)
		}
		pairs[rank] = [2]string{m[:cut], m[cut+1:]}
	}
	return pairs, nil
}

// mergeable tells whether merging text can make a token of a type. Added tokens are found before that, others never.
func mergeable(t Type) bool { return t != Control && t != Unknown && t != UserDefined }

func (b *bpe) pair(_ string, l, r *symbol) (int32, uint32) {
	s := b.pairs.slot(l.id, r.id)
	return s.id, s.rank
}

// encode appends the tokens of a stretch of plain text.
func (b *bpe) encode(dst []int32, s stretch) []int32 {
	x := b.scratch.Get().(*scratch)
	defer b.scratch.Put(x)
	encode := func(dst []int32, word string) []int32 { return b.word(dst, word, x) }
	split(s.text, b.split, func(word string) { dst = x.recent.encode(dst, word, encode) })
	return dst
}

// word appends the tokens of a word.
func (b *bpe) word(dst []int32, word string, x *scratch) []int32 {
	if b.words != nil {
		if id := b.words.find(word); id != None {
			return append(dst, id)
		}
	}
	m := &x.merger
	m.reset(len(word))
	missing := false
	for i := range len(word) {
		id := b.byteID[word[i]]
		switch {
		case id != None:
			m.add(i, i+1, id)
		case b.unknown != None && !(missing && b.fuse):
			m.add(i, i+1, b.unknown)
		}
		missing = id == None
	}
	m.merge(word, b)
	for y := range m.all() {
		dst = append(dst, y.id)
	}
	return dst
}
