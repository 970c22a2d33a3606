package tokenizer

// words describes the patterns that followed cl100k's, which differ in a few places:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type words struct {
	digits int   // most numbers in a piece
	letter class // what a word is made of, for \p{L}
}

func (w words) scanner() scanner {
	t := classes()
	return func(s string) int {
		if n := contraction(s, true); n > 0 {
			return n
		}
		r, c, n := at(t, s, 0)

		// [^\r\n\p{L}\p{N}]?\p{L}+
		i := 0
		if !c.is(letter|number) && r != '\r' && r != '\n' {
			i = n
		}
		if end := runFrom(s, i, w.letter, 0); end > i {
			return end
		}
		if c.is(w.letter) { // the optional character was itself the word
			return n
		}

		// \p{N}{1,3}
		if c.is(number) {
			return runFrom(s, 0, number, w.digits)
		}

		// ?[^\s\p{L}\p{N}]+[\r\n]*
		if i := punctuation(s, space|w.letter|number); i > 0 {
			for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
				i++
			}
			return i
		}
		return lines(s)
	}
}

// runFrom returns the end of the run of a class that starts at i and has at most most code points (0: any number).
func runFrom(s string, i int, set class, most int) int {
	t := classes()
	for k := 0; k < most || most == 0; k++ {
		_, c, n := at(t, s, i)
		if n == 0 || !c.is(set) {
			break
		}
		i += n
	}
	return i
}

// punctuation matches a space or none, then code points outside a class.
func punctuation(s string, not class) int {
	t := classes()
	start := 0
	if s[0] == ' ' {
		start = 1
	}
	i := start
	for {
		_, c, n := at(t, s, i)
		if n == 0 || c.is(not) {
			break
		}
		i += n
	}
	if i == start {
		return 0
	}
	return i
}

// lines matches \s*[\r\n]+|\s+(?!\S)|\s+ where s starts with white space: through the last line break of a run of white
// space, else as spaces does.
func lines(s string) int {
	t := classes()
	end := 0
	for i := 0; ; {
		r, c, n := at(t, s, i)
		if n == 0 || !c.is(space) {
			break
		}
		i += n
		if r == '\r' || r == '\n' {
			end = i
		}
	}
	if end > 0 {
		return end
	}
	return spaces(s)
}
