package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// spm is SentencePiece's BPE (tokenizer.ggml.model "llama"): spaces become U+2581, characters are tokens, and of the
// neighbours whose concatenation is a token, those with the highest score merge first. A character without a token
// becomes its bytes, or the unknown token where the vocabulary has no bytes.
type spm struct {
	texts   *texts        // by escaped text
	ranks   []uint32      // of each token: a higher score is a lower rank
	longest int           // bytes of the longest token
	byteID  [256]int32    // the token <0xXX> of each byte; all None if the vocabulary has no bytes
	unknown int32         // used then
	prefix  bool          // a stretch of plain text gets a space in front
	glued   map[rune]bool // characters after which a token can go on with a space; see words
	scratch sync.Pool     // *scratch
}

const escapedSpace = "\u2581" // ▁

func newSPM(c *Config) (*spm, error) {
	if c.Scores == nil {
		return nil, fmt.Errorf("tokenizer: a SentencePiece vocabulary (model %q) needs scores, found none; convert again", c.Model)
	}
	s := &spm{
		texts:   newTexts(c.Tokens),
		ranks:   make([]uint32, len(c.Tokens)),
		unknown: c.UNK,
		prefix:  choose(c.AddSpacePrefix, true),
		glued:   map[rune]bool{},
	}
	s.scratch.New = newScratch
	var count int
	var err error
	if s.byteID, count, err = c.bytes(); err != nil {
		return nil, err
	}
	for id, text := range c.Tokens {
		switch c.typeOf(id) {
		case Control, Unknown, Byte:
			continue // no text merges to these
		}
		s.texts.insert(int32(id))
		s.ranks[id] = rankOf(c.Scores[id])
		s.longest = max(s.longest, len(text))
		glue(s.glued, text)
	}
	if count == 0 && s.unknown == None {
		return nil, fmt.Errorf("tokenizer: the vocabulary has neither byte tokens nor an unknown token, so some text has no tokens; convert again")
	}
	return s, nil
}

// rankOf maps a score to a rank such that a higher score is a lower rank. No score maps to never.
func rankOf(score float32) uint32 {
	if score == 0 {
		score = 0 // not -0
	}
	bits := math.Float32bits(score)
	if bits>>31 == 0 {
		bits |= 1 << 31
	} else {
		bits = ^bits
	}
	return ^bits
}

// glue notes the characters of a token that an escaped space follows.
func glue(glued map[rune]bool, text string) {
	for from := 1; from < len(text); {
		i := strings.Index(text[from:], escapedSpace)
		if i < 0 {
			return
		}
		from += i
		if r, _ := utf8.DecodeLastRuneInString(text[:from]); r != '\u2581' {
			glued[r] = true
		}
		from += len(escapedSpace)
	}
}

// unglued cuts escaped text where no token can stretch across: before a space that follows a character after which no
// token has a space. Merging the words one by one gives what merging all of the text would.
func unglued(text string, glued map[rune]bool, emit func(word string)) {
	start := 0
	for from := 1; from < len(text); {
		i := strings.Index(text[from:], escapedSpace)
		if i < 0 {
			break
		}
		from += i
		if r, _ := utf8.DecodeLastRuneInString(text[:from]); r != '\u2581' && !glued[r] {
			emit(text[start:from])
			start = from
		}
		from += len(escapedSpace)
	}
	emit(text[start:])
}

func (s *spm) pair(text string, l, r *symbol) (int32, uint32) {
	if int(r.end-l.start) > s.longest {
		return None, never
	}
	id := s.texts.find(text[l.start:r.end])
	if id == None {
		return None, never
	}
	return id, s.ranks[id]
}

// encode appends the tokens of a stretch of plain text.
func (s *spm) encode(dst []int32, from stretch) []int32 {
	text := from.text
	if s.prefix {
		text = " " + text
	}
	x := s.scratch.Get().(*scratch)
	defer s.scratch.Put(x)
	encode := func(dst []int32, word string) []int32 { return s.word(dst, word, &x.merger) }
	first := len(dst)
	unglued(strings.ReplaceAll(text, " ", escapedSpace), s.glued, func(word string) {
		start := len(dst)
		dst = x.recent.encode(dst, word, encode)
		if start > first && s.byteID[0] == None && dst[start] == s.unknown && dst[start-1] == s.unknown {
			dst = slices.Delete(dst, start, start+1) // the run goes on
		}
	})
	return dst
}

// word appends the tokens of a word. The unknown token stands for a whole run.
func (s *spm) word(dst []int32, word string, m *merger) []int32 {
	m.reset(len(word))
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		m.add(i, i+n, None)
		i += n
	}
	m.merge(word, s)
	unknown := false
	for y := range m.all() {
		piece := word[y.start:y.end]
		id := y.id
		if id == None { // it never merged
			id = s.texts.find(piece)
		}
		switch {
		case id != None:
			dst, unknown = append(dst, id), false
		case s.byteID[0] != None:
			for _, b := range []byte(piece) {
				dst = append(dst, s.byteID[b])
			}
		case !unknown:
			dst, unknown = append(dst, s.unknown), true
		}
	}
	return dst
}

// appendUnescaped appends text with spaces for U+2581.
func appendUnescaped(dst []byte, text string) []byte {
	for {
		before, after, found := strings.Cut(text, escapedSpace)
		dst = append(dst, before...)
		if !found {
			return dst
		}
		dst, text = append(dst, ' '), after
	}
}

// parseByte reads the text <0xXX> of a byte token.
func parseByte(text string) (byte, error) {
	if len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>' {
		hi, lo := unhex(text[3]), unhex(text[4])
		if hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), nil
		}
	}
	return 0, fmt.Errorf("byte token is spelled %q, want <0xXX>; convert again", text)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
