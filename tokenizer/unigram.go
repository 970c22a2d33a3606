package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// unigram is SentencePiece's unigram model: of all ways to cut a word into tokens, the one whose scores have the highest
// sum. A character without a token costs more than the worst token, and runs of such characters become one unknown token,
// or bytes where the vocabulary has them.
type unigram struct {
	trie    *trie
	scores  []float64
	unknown int32
	penalty float64    // the score of a character without a token
	byteID  [256]int32 // all None if the vocabulary has no bytes
}

// unknownPenalty is what a character without a token scores below the lowest score of a token.
const unknownPenalty = 10

// longestPiece is the most bytes of a token: the time for a text grows with its length times that.
const longestPiece = 512

// best is the best way to cut a word up to some byte.
type best struct {
	score float64
	from  int32 // where its last token starts, -1 if no way is known yet
	id    int32 // that token, None for a character without one
}

// word finds the best way by position, left to right, and reads it back from the end. Of ways with equal scores the first
// found counts: the one whose last token is longest.
func (u *unigram) word(dst []int32, word string, x *scratch) []int32 {
	if word == "" {
		return dst
	}
	way := slices.Grow(x.ways[:0], len(word)+1)[:len(word)+1]
	x.ways = way
	for i := range way {
		way[i].from = -1
	}
	way[0] = best{}
	offer := func(to, from int, score float64, id int32) {
		if w := &way[to]; w.from < 0 || score > w.score {
			*w = best{score, int32(from), id}
		}
	}
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		single, here := false, way[i].score
		for j, node := i, int32(0); j < len(word); {
			if node = u.trie.step(node, word[j]); node < 0 {
				break
			}
			j++
			if id := u.trie.nodes[node].id; id != None {
				offer(j, i, here+u.scores[id], id)
				single = single || j == i+n
			}
		}
		if !single {
			offer(i+n, i, here+u.penalty, None)
		}
		i += n
	}
	start := len(dst)
	unknown := false
	for end := len(word); end > 0; end = int(way[end].from) {
		switch w := way[end]; {
		case w.id != None:
			dst = append(dst, w.id)
		case u.byteID[0] != None:
			for i := end - 1; i >= int(w.from); i-- {
				dst = append(dst, u.byteID[word[i]])
			}
		case !unknown:
			dst = append(dst, u.unknown)
		}
		unknown = way[end].id == None
	}
	slices.Reverse(dst[start:])
	return dst
}

// t5FromGGUF is a vocabulary of kind "t5".
func t5FromGGUF(c *Config) (*pipeline, error) {
	if c.Scores == nil {
		return nil, fmt.Errorf("tokenizer: a unigram vocabulary (model %q) needs scores, found none; convert again", c.Model)
	}
	u := &unigram{scores: make([]float64, len(c.Tokens)), unknown: c.UNK}
	var err error
	var bytes int
	if u.byteID, bytes, err = c.bytes(); err != nil {
		return nil, err
	}
	if bytes == 0 && c.UNK == None {
		return nil, fmt.Errorf("tokenizer: the vocabulary has neither byte tokens nor an unknown token, so some text has no tokens; convert again")
	}
	var ids []int32
	lowest := 0.0
	for id := range c.Tokens {
		switch y := c.typeOf(id); y {
		case Control, Unknown, Byte:
			continue
		case UserDefined: // scores 0
		default:
			u.scores[id] = float64(c.Scores[id])
			lowest = min(lowest, u.scores[id])
		}
		if n := len(c.Tokens[id]); n > longestPiece {
			return nil, fmt.Errorf("tokenizer: token %d has %d bytes, want at most %d", id, n, longestPiece)
		}
		ids = append(ids, int32(id))
	}
	u.penalty = lowest - unknownPenalty
	u.trie = newTrie(c.Tokens, ids)
	chars, err := newCharsmap(c.Charsmap)
	if err != nil {
		return nil, err
	}
	return newPipeline(sentencePieceNormaliser(chars, choose(c.AddSpacePrefix, false), choose(c.RemoveExtraSpaces, false)), nil, u), nil
}
