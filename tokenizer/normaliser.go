package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normaliser rewrites a text before it is cut into words.
type normaliser func(text string) string

// inTurn applies normalisers one after the other.
func inTurn(all []normaliser) normaliser {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return func(s string) string {
		for _, n := range all {
			s = n(s)
		}
		return s
	}
}

// lowercase lowers each character by itself, so that a final sigma is like any other.
func lowercase(s string) string {
	return mapRunes(strings.ReplaceAll(s, "\u0130", "i\u0307"), unicode.ToLower)
}

// mapRunes replaces characters; bytes that are not UTF-8 stay. A character that becomes -1 goes.
func mapRunes(s string, to func(rune) rune) string {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || to(r) == r {
			i += n
			continue
		}
		var b strings.Builder
		b.Grow(len(s))
		b.WriteString(s[:i])
		for ; i < len(s); i += n {
			r, n = utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b.WriteByte(s[i])
			} else if r = to(r); r >= 0 {
				b.WriteRune(r)
			}
		}
		return b.String()
	}
	return s
}

// without removes characters.
func without(s string, drop func(rune) bool) string {
	return mapRunes(s, func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	})
}

func stripAccents(s string) string {
	return without(s, func(r rune) bool { return r >= utf8.RuneSelf && unicode.Is(unicode.M, r) })
}

// bertNormaliser is what BERT does to a text before it cuts it.
type bertNormaliser struct {
	clean   bool // drop control characters, and write all white space as spaces
	chinese bool // put spaces around Chinese characters
	accents bool // decompose, and drop what does not take space
	lower   bool
}

func (b bertNormaliser) normalise(s string) string {
	if b.clean {
		s = mapRunes(s, func(r rune) rune {
			switch {
			case r == '\t' || r == '\n' || r == '\r':
				return ' '
			case r < utf8.RuneSelf:
				if r < ' ' || r == 0x7F {
					return -1
				}
			case r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
				return -1
			case unicode.Is(unicode.White_Space, r):
				return ' '
			}
			return r
		})
	}
	if b.chinese {
		s = spacedChinese(s)
	}
	if b.accents && !ascii(s) {
		s = without(form(norm.NFD)(s), func(r rune) bool { return r >= utf8.RuneSelf && unicode.Is(unicode.Mn, r) })
	}
	if b.lower {
		s = lowercase(s)
	}
	return s
}

// ideographs are the blocks that BERT calls Chinese. One bound is a slip (U+2B820 was meant) with which models were trained.
var ideographs = &unicode.RangeTable{
	R16: []unicode.Range16{{0x3400, 0x4DBF, 1}, {0x4E00, 0x9FFF, 1}, {0xF900, 0xFAFF, 1}},
	R32: []unicode.Range32{{0x20000, 0x2A6DF, 1}, {0x2A700, 0x2B73F, 1}, {0x2B740, 0x2B81F, 1}, {0x2B920, 0x2CEAF, 1}, {0x2F800, 0x2FA1F, 1}},
}

func spacedChinese(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return unicode.Is(ideographs, r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(ideographs, r) {
			b.WriteString(" " + s[i:i+n] + " ")
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// bertPunctuation is what stands alone in BERT: all of ASCII that is no letter, digit or space, and Unicode's punctuation.
func bertPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7F && !isWord(r) || r == '_'
	}
	return unicode.Is(unicode.P, r)
}
