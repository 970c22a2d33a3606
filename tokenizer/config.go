package tokenizer

import (
	"fmt"
	"math"
	"slices"
)

// None stands for a special token that the file does not have.
const None int32 = -1

// Type says what a token is for. The numbers are GGUF's (tokenizer.ggml.token_type).
type Type int32

const (
	Undefined   Type = 0
	Normal      Type = 1 // a piece of text
	Unknown     Type = 2 // stands for text that the vocabulary cannot spell
	Control     Type = 3 // a special token: a mark for the model, never part of the text
	UserDefined Type = 4 // an added token: its text is always this token, whatever the merges say
	Unused      Type = 5
	Byte        Type = 6 // one byte, spelled <0xXX>
)

// Config is a vocabulary as model files describe it. The names in parentheses are GGUF keys below tokenizer.ggml.
type Config struct {
	Model string // (model) the kind; see New
	Pre   string // (pre) name of the pre-tokeniser; byte-level BPE needs one

	Tokens []string  // (tokens) the text of each token, as the kind escapes it
	Types  []Type    // (token_type) nil: all Normal
	Scores []float32 // (scores) SentencePiece: of the pairs that could merge, the one whose sum scores highest does
	Merges []string  // (merges) byte-level BPE: "left right", in order of rank

	BOS, EOS, EOT, EOM, UNK int32 // (bos_token_id ...) None where the file has none

	Fill *Fill // (fim_pre_token_id ...) None where the file has none; nil: it has none of them. Texts may tell

	AddBOS, AddEOS *bool // (add_bos_token, add_eos_token) nil: as usual for the kind
	AddSpacePrefix *bool // (add_space_prefix) nil: as usual for the kind

	RemoveExtraSpaces       *bool  // (remove_extra_whitespaces) unigram: one space for several, none at the ends; nil: no
	Charsmap                []byte // (precompiled_charsmap) unigram: what characters become before anything else
	Lowercase, StripAccents *bool  // (normalizer.lowercase, .strip_accents) WordPiece; nil: yes, and as Lowercase

	LStrip, RStrip []int32 // added tokens that swallow the white space before, or after, them
}

// validate checks all that later code takes for granted: lengths and ids.
func (c *Config) validate() error {
	n := len(c.Tokens)
	if n == 0 {
		return fmt.Errorf("tokenizer: the vocabulary has no tokens; this file cannot encode text")
	}
	if n > math.MaxInt32/2 {
		return fmt.Errorf("tokenizer: %d tokens, at most %d", n, math.MaxInt32/2)
	}
	if c.Types != nil && len(c.Types) != n {
		return fmt.Errorf("tokenizer: token_type has %d entries, tokens has %d; convert again", len(c.Types), n)
	}
	if c.Scores != nil && len(c.Scores) != n {
		return fmt.Errorf("tokenizer: scores has %d entries, tokens has %d; convert again", len(c.Scores), n)
	}
	if i := slices.IndexFunc(c.Scores, func(s float32) bool { return s != s }); i >= 0 {
		return fmt.Errorf("tokenizer: the score of token %d (%q) is not a number; convert again", i, c.Tokens[i])
	}
	for _, s := range []struct {
		name string
		id   int32
	}{{"bos", c.BOS}, {"eos", c.EOS}, {"eot", c.EOT}, {"eom", c.EOM}, {"unknown", c.UNK},
		{"fim_pre", c.named().Prefix}, {"fim_suf", c.named().Suffix}, {"fim_mid", c.named().Middle}} {
		if s.id != None && (s.id < 0 || int(s.id) >= n) {
			return fmt.Errorf("tokenizer: %s_token_id is %d, the vocabulary has %d tokens; convert again", s.name, s.id, n)
		}
	}
	for _, id := range slices.Concat(c.LStrip, c.RStrip) {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("tokenizer: token %d strips white space, the vocabulary has %d tokens", id, n)
		}
	}
	return nil
}

// bytes returns the token <0xXX> of each byte, None where there is none, and how many there are: all or none.
func (c *Config) bytes() (ids [256]int32, count int, err error) {
	for i := range ids {
		ids[i] = None
	}
	for id, text := range c.Tokens {
		if c.typeOf(id) != Byte {
			continue
		}
		b, err := parseByte(text)
		if err != nil {
			return ids, 0, fmt.Errorf("tokenizer: token %d: %w", id, err)
		}
		if ids[b] == None {
			ids[b] = int32(id)
			count++
		}
	}
	if count != 0 && count != len(ids) {
		return ids, count, fmt.Errorf("tokenizer: the vocabulary has tokens for %d bytes, want all %d or none; convert again", count, len(ids))
	}
	return ids, count, nil
}

// typeOf returns the type of a token; id is valid.
func (c *Config) typeOf(id int) Type {
	if c.Types == nil {
		return Normal
	}
	return c.Types[id]
}

func choose(set *bool, usual bool) bool {
	if set != nil {
		return *set
	}
	return usual
}
