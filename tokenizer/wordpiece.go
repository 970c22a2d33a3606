package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// wordPiece is BERT's vocabulary: a word is cut from the left, each time by the longest token. A word that cannot be cut
// to its end, or that is too long, is unknown as a whole.
type wordPiece struct {
	start, rest *trie // tokens that begin a word, and those that go on with one
	unknown     int32
	most        int // characters of a word that is looked at
}

const (
	usualWord = 100 // characters of a word that BERT's tokenizers look at
	mostWord  = 400 // and that any may: the time for a word grows with the square
)

// newWordPiece builds the model from the texts of tokens that begin a word and of those that go on with one; in both, "" stands for
// a token that is not of that kind. usable tells which tokens text may become.
func newWordPiece(start, rest []string, usable func(id int) bool, unknown int32, most int) *wordPiece {
	ids := make([]int32, 0, len(start))
	for id := len(start) - 1; id >= 0; id-- { // of tokens with the same text the first counts
		if usable(id) {
			ids = append(ids, int32(id))
		}
	}
	return &wordPiece{start: newTrie(start, ids), rest: newTrie(rest, ids), unknown: unknown, most: most}
}

func (w *wordPiece) word(dst []int32, word string, _ *scratch) []int32 {
	if len(word) > w.most && utf8.RuneCountInString(word) > w.most {
		return append(dst, w.unknown)
	}
	begin := len(dst)
	for i, t := 0, w.start; i < len(word); t = w.rest {
		id, n := t.longest(word[i:])
		if n == 0 {
			return append(dst[:begin], w.unknown)
		}
		dst, i = append(dst, id), i+n
	}
	return dst
}

// bertFromGGUF is a vocabulary of kind "bert": the tokens that begin a word have U+2581 in front, the others nothing. GGUF
// keeps two settings of BERT's normaliser; what else there is to it is the same in all models.
func bertFromGGUF(c *Config) (*pipeline, error) {
	if c.UNK == None {
		return nil, fmt.Errorf("tokenizer: a WordPiece vocabulary (model %q) needs an unknown token; set unknown_token_id", c.Model)
	}
	start, rest := make([]string, len(c.Tokens)), make([]string, len(c.Tokens))
	for id, s := range c.Tokens {
		if word, ok := strings.CutPrefix(s, escapedSpace); ok {
			start[id] = word
		} else {
			rest[id] = s
		}
	}
	lower := choose(c.Lowercase, true)
	b := bertNormaliser{clean: true, chinese: true, accents: choose(c.StripAccents, lower), lower: lower}
	return newPipeline(b.normalise, bertCut, newWordPiece(start, rest, func(id int) bool { return mergeable(c.typeOf(id)) }, c.UNK, usualWord)), nil
}

// tidy removes the spaces that WordPiece's decoder puts before punctuation and contractions, as Hugging Face does.
var tidy = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't",
	" 's", "'s", " 've", "'ve", " 're", "'re").Replace
