package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// charset is a set of characters: a union of parts, without those outside any of and, or what is left of that.
type charset struct {
	parts []charPart
	and   []*charset
	not   bool
	fold  bool                // in any case
	low   [utf8.RuneSelf]bool // which of ASCII it has, once frozen
}

// charPart is a range of characters, those of some classes, those of a table, or a set.
type charPart struct {
	lo, hi rune
	class  class
	table  *unicode.RangeTable
	set    *charset
}

func (p *charPart) has(r rune, c class) bool {
	switch {
	case p.set != nil:
		return p.set.compute(r, c)
	case p.table != nil:
		return unicode.Is(p.table, r)
	case p.class != 0:
		return c.is(p.class)
	}
	return r >= p.lo && r <= p.hi
}

// has tells whether a character of a class is in a frozen set.
func (s *charset) has(r rune, c class) bool {
	if r < utf8.RuneSelf {
		return s.low[r]
	}
	return s.compute(r, c)
}

func (s *charset) compute(r rune, c class) bool {
	in := s.contains(r, c)
	for f := r; s.fold && !in; {
		if f = unicode.SimpleFold(f); f == r {
			break
		}
		in = s.contains(f, classes()[f])
	}
	for _, other := range s.and {
		in = in && other.compute(r, c)
	}
	return in != s.not
}

func (s *charset) contains(r rune, c class) bool {
	for i := range s.parts {
		if s.parts[i].has(r, c) {
			return true
		}
	}
	return false
}

// freeze prepares a set for has.
func (s *charset) freeze() *charset {
	for r := range s.low {
		s.low[r] = s.compute(rune(r), classes()[r])
	}
	return s
}

func runes(lo, hi rune) charPart { return charPart{lo: lo, hi: hi} }

// wordSet is \w: Unicode's, and in Latin-1 all numbers.
func wordSet() *charset {
	s := &charset{parts: []charPart{{class: letter | mark}, runes('\u00B2', '\u00B3'), runes('\u00B9', '\u00B9'), runes('\u00BC', '\u00BE')}}
	for _, t := range []*unicode.RangeTable{unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic} {
		s.parts = append(s.parts, charPart{table: t})
	}
	return s
}

// property is \p{name}.
func property(name string) (charPart, error) {
	switch name {
	case "L":
		return charPart{class: letter}, nil
	case "Ll":
		return charPart{class: lower}, nil
	case "M":
		return charPart{class: mark}, nil
	case "N":
		return charPart{class: number}, nil
	case "P":
		return charPart{class: punct}, nil
	case "S":
		return charPart{class: sign}, nil
	case "C", "Cn": // Go has no table of what is not assigned
	default:
		if t, ok := unicode.Categories[name]; ok {
			return charPart{table: t}, nil
		}
		if t, ok := unicode.Scripts[name]; ok {
			return charPart{table: t}, nil
		}
	}
	return charPart{}, fmt.Errorf("\\p{%s} is not supported", name)
}
