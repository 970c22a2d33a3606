package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form returns the normaliser of one of Unicode's forms.
//
// golang.org/x/text breaks runs of more than 30 combining marks with U+034F (Unicode's stream-safe format), which no
// tokenizer does. A text with such a run takes the slow way, which is the definition (UAX 15).
func form(f norm.Form) normaliser {
	return func(s string) string {
		if ascii(s) {
			return s
		}
		if manyMarks(s) {
			return formByDefinition(f, s)
		}
		return f.String(s)
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// manyMarks tells whether s has a run of combining marks that might be too long: each decomposes into at most three.
func manyMarks(s string) bool {
	const most = 8
	run := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			run, i = 0, i+1
			continue
		}
		p := norm.NFD.PropertiesString(s[i:])
		if run++; p.CCC() == 0 && p.LeadCCC() == 0 {
			run = 0
		}
		if run > most {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// formByDefinition decomposes each character, orders the marks after each starter by class, and composes.
func formByDefinition(f norm.Form, s string) string {
	decompose := norm.NFD
	if f == norm.NFKC || f == norm.NFKD {
		decompose = norm.NFKD
	}
	type char struct {
		text  string
		class uint8
	}
	var chars []char
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		for part := decompose.String(s[i : i+n]); part != ""; {
			_, n := utf8.DecodeRuneInString(part)
			chars = append(chars, char{part[:n], norm.NFD.PropertiesString(part[:n]).CCC()})
			part = part[n:]
		}
		i += n
	}
	for i := 0; i < len(chars); {
		j := i
		for j < len(chars) && chars[j].class != 0 {
			j++
		}
		slices.SortStableFunc(chars[i:j], func(a, b char) int { return int(a.class) - int(b.class) })
		i = j + 1
	}
	var b strings.Builder
	if f == norm.NFD || f == norm.NFKD {
		for _, c := range chars {
			b.WriteString(c.text)
		}
		return b.String()
	}
	// A character composes with the last starter unless one between them has its class or a higher one.
	starter, last := -1, uint8(0)
	kept := chars[:0]
	for _, c := range chars {
		if starter >= 0 && (last < c.class || starter == len(kept)-1) {
			pair := norm.NFC.String(kept[starter].text + c.text)
			if r, n := utf8.DecodeRuneInString(pair); n == len(pair) && r != utf8.RuneError {
				kept[starter].text = pair
				continue
			}
		}
		if last = c.class; c.class == 0 {
			starter = len(kept)
		}
		kept = append(kept, c)
	}
	for _, c := range kept {
		b.WriteString(c.text)
	}
	return b.String()
}
