package tokenizer

import "hash/maphash"

// scratch is what encoding a text needs besides its result: reused, never shared by two calls at once.
type scratch struct {
	merger
	recent recent  // words
	parts  *recent // parts of words, of charBPE
	ways   []best  // of unigram
}

// recent remembers the tokens of short words, which make up most of any text: a word's tokens depend on nothing else. A
// new word takes the place of the one that its hash shares.
type recent struct {
	seed  maphash.Seed
	words [2048]knownWord
}

// knownWord is a cache line.
type knownWord struct {
	text   [22]byte
	length uint8 // of text; 0: nothing is known
	tokens uint8
	ids    [10]int32
}

func newScratch() any { return &scratch{recent: recent{seed: maphash.MakeSeed()}} }

// encode appends the tokens of a word, which are those that encode appends.
func (r *recent) encode(dst []int32, word string, encode func(dst []int32, word string) []int32) []int32 {
	if len(word) > len(knownWord{}.text) || word == "" {
		return encode(dst, word)
	}
	w := &r.words[maphash.String(r.seed, word)%uint64(len(r.words))]
	if string(w.text[:w.length]) == word {
		return append(dst, w.ids[:w.tokens]...)
	}
	start := len(dst)
	dst = encode(dst, word)
	if n := len(dst) - start; n <= len(w.ids) {
		w.length = uint8(copy(w.text[:], word))
		w.tokens = uint8(copy(w.ids[:], dst[start:]))
	}
	return dst
}
