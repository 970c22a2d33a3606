package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// wordPiece is BERT's vocabulary: a word is cut from the left, each time by the longest token. A word that cannot be cut
// to its end, or that is too long, is unknown as a whole.
type wordPiece struct {
	start, rest *texts // tokens that begin a word, and those that go on with one
	longest     int    // bytes of the longest token
	unknown     int32
	most        int // characters of a word that is looked at
}

// usualWord is the most characters of a word that BERT's tokenizers look at.
const usualWord = 100

// newWordPiece builds the model from the texts of tokens that begin a word and of those that go on with one; in both, ""
// stands for a token that is not of that kind.
func newWordPiece(start, rest []string, unknown int32, most int) *wordPiece {
	w := &wordPiece{start: newTexts(start), rest: newTexts(rest), unknown: unknown, most: most}
	for id := range start {
		for _, t := range []*texts{w.start, w.rest} {
			if t.all[id] != "" {
				t.insert(int32(id))
				w.longest = max(w.longest, len(t.all[id]))
			}
		}
	}
	return w
}

func (w *wordPiece) word(dst []int32, word string, _ *scratch) []int32 {
	if len(word) > w.most && utf8.RuneCountInString(word) > w.most {
		return append(dst, w.unknown)
	}
	begin := len(dst)
	table := w.start
	for i := 0; i < len(word); table = w.rest {
		end, id := min(len(word), i+w.longest), None
		for ; end > i; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if id = table.find(word[i:end]); id != None {
				break
			}
		}
		if id == None {
			return append(dst[:begin], w.unknown)
		}
		dst, i = append(dst, id), end
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
		if !mergeable(c.typeOf(id)) {
			continue
		}
		if word, ok := strings.CutPrefix(s, escapedSpace); ok {
			start[id] = word
		} else {
			rest[id] = s
		}
	}
	lower := choose(c.Lowercase, true)
	b := bertNormaliser{clean: true, chinese: true, accents: choose(c.StripAccents, lower), lower: lower}
	return newPipeline(b.normalise, bertCut, newWordPiece(start, rest, c.UNK, usualWord)), nil
}

// tidy removes the spaces that WordPiece's decoder puts before punctuation and contractions, as Hugging Face does.
var tidy = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't",
	" 's", "'s", " 've", "'ve", " 're", "'re").Replace
