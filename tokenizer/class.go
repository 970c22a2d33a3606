package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of Unicode categories, a bit for each that a pre-tokeniser tells apart.
type class uint8

const (
	upper  class = 1 << iota // \p{Lu} \p{Lt}
	lower                    // \p{Ll}
	other                    // \p{Lm} \p{Lo}: letters without case
	mark                     // \p{M}
	number                   // \p{N}
	space                    // \s, which is White_Space
	punct                    // \p{P}
	sign                     // \p{S}

	letter = upper | lower | other
)

// classes holds the class of each code point (Go's Unicode version); unassigned and private ones have none.
var classes = sync.OnceValue(func() *[unicode.MaxRune + 1]class {
	t := new([unicode.MaxRune + 1]class)
	for _, c := range []struct {
		class
		table *unicode.RangeTable
	}{
		{upper, unicode.Lu}, {upper, unicode.Lt}, {lower, unicode.Ll}, {other, unicode.Lm}, {other, unicode.Lo},
		{mark, unicode.M}, {number, unicode.N}, {space, unicode.White_Space}, {punct, unicode.P}, {sign, unicode.S},
	} {
		for _, r := range c.table.R16 {
			for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
				t[x] |= c.class
			}
		}
		for _, r := range c.table.R32 {
			for x := rune(r.Lo); x <= rune(r.Hi); x += rune(r.Stride) {
				t[x] |= c.class
			}
		}
	}
	return t
})

func (c class) is(set class) bool { return c&set != 0 }

// at returns the code point of s at i, its class and its length; at the end, a length of 0. A byte that is not UTF-8 is
// one code point without a class.
func at(t *[unicode.MaxRune + 1]class, s string, i int) (r rune, c class, n int) {
	if i >= len(s) {
		return -1, 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return rune(b), t[b], 1
	}
	r, n = utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && n == 1 {
		return r, 0, 1
	}
	return r, t[r], n
}
