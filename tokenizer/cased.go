package tokenizer

// casedWords describes o200k's pattern and its kin, which end a word where its case goes from small to capital:
//
//	[^\r\n\p{L}\p{N}]?U*L+S?|[^\r\n\p{L}\p{N}]?U+L*S?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L is [\p{Ll}\p{Lm}\p{Lo}\p{M}] and S a contraction in any case.
type casedWords struct {
	digits int  // most numbers in a piece
	suffix bool // whether S is there
}

func (w casedWords) scanner() scanner {
	t := classes()
	return func(s string) int {
		r, c, n := at(t, s, 0)
		lead := 0 // [^\r\n\p{L}\p{N}]?
		if !c.is(letter|number) && r != '\r' && r != '\n' {
			lead = n
		}
		end := 0
		for _, word := range [2]func(s string, i int) int{smallEnd, capitals} {
			if end = word(s, lead); end == 0 && lead > 0 {
				end = word(s, 0)
			}
			if end > 0 {
				if w.suffix {
					end += contraction(s[end:], true)
				}
				return end
			}
		}
		if c.is(number) {
			return runFrom(s, 0, number, w.digits)
		}
		if i := punctuation(s, space|letter|number); i > 0 {
			for i < len(s) && (s[i] == '\r' || s[i] == '\n' || s[i] == '/') {
				i++
			}
			return i
		}
		return lines(s)
	}
}

const (
	capital = upper | other | mark
	small   = lower | other | mark
)

// smallEnd matches U*L+ at i and returns its end, 0 for none. The capitals take all they can and give back what L+ needs:
// nothing if a small letter follows, else they end with the last character that is both.
func smallEnd(s string, i int) int {
	t := classes()
	both := 0 // end of the last character so far that is U and L
	for {
		_, c, n := at(t, s, i)
		switch {
		case c.is(lower):
			return runFrom(s, i, small, 0)
		case !c.is(capital):
			return both
		}
		i += n
		if c.is(small) {
			both = i
		}
	}
}

// capitals matches U+L* at i where U*L+ does not match, so that L* is empty; it returns the end, 0 for none.
func capitals(s string, i int) int {
	if end := runFrom(s, i, capital, 0); end > i {
		return end
	}
	return 0
}
