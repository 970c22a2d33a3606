package tokenizer

import "unicode/utf8"

// A scanner cuts text: it returns the length in bytes of the first piece of s, which is not empty. What precedes s never
// matters to it, what follows may.
type scanner func(s string) int

// split cuts text with the first scanner, each of those pieces with the second, and so on.
func split(text string, chain []scanner, emit func(piece string)) {
	if len(chain) == 0 {
		emit(text)
		return
	}
	for text != "" {
		n := chain[0](text)
		split(text[:n], chain[1:], emit)
		text = text[n:]
	}
}

// isolate makes a scanner of a pattern: matches are pieces, and so is the text between them. match returns the length of
// the match at the start of s, 0 for none.
func isolate(match func(s string) int) scanner {
	return func(s string) int {
		if n := match(s); n > 0 {
			return n
		}
		for i := 0; i < len(s); {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
			if i < len(s) && match(s[i:]) > 0 {
				return i
			}
		}
		return len(s)
	}
}

// run matches as many code points of a class as there are, at most most (0: any number).
func run(set class, most int) func(s string) int {
	t := classes()
	return func(s string) int {
		i := 0
		for k := 0; k < most || most == 0; k++ {
			_, c, n := at(t, s, i)
			if n == 0 || !c.is(set) {
				break
			}
			i += n
		}
		return i
	}
}
