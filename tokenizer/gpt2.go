package tokenizer

// gpt2 is the pattern that GPT-2 began with:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2() scanner {
	t := classes()
	return func(s string) int {
		if n := contraction(s, false); n > 0 {
			return n
		}
		r, c, n := at(t, s, 0)
		i := n // end of the first character that decides the kind of piece
		if r == ' ' {
			if _, after, m := at(t, s, n); m > 0 && !after.is(space) {
				c, i = after, n+m
			}
		}
		if c.is(space) {
			return spaces(s)
		}
		kind := c & (letter | number) // 0: neither, nor space
		for {
			_, c, n := at(t, s, i)
			if n == 0 || c.is(space) || !sameKind(c, kind) {
				return i
			}
			i += n
		}
	}
}

// sameKind tells whether a character, not a space, continues a run of letters, of numbers, or of neither.
func sameKind(c, kind class) bool {
	switch {
	case kind.is(letter):
		return c.is(letter)
	case kind.is(number):
		return c.is(number)
	}
	return !c.is(letter | number)
}

// spaces matches \s+(?!\S)|\s+ where s starts with white space: a run of it, but the last one is left to a word that
// follows, unless it is alone.
func spaces(s string) int {
	t := classes()
	i, last := 0, 0
	for {
		_, c, n := at(t, s, i)
		if n == 0 {
			return i
		}
		if !c.is(space) {
			break
		}
		i, last = i+n, n
	}
	if i > last {
		return i - last
	}
	return i
}

// contraction matches 's 't 're 've 'm 'll 'd, in any case if fold; then "ſ" is an s too (its Unicode case folding).
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lowered := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if b := s[i]; !fold || b < 'A' || b > 'Z' {
			return b
		}
		return s[i] + 'a' - 'A'
	}
	switch lowered(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if lowered(2) == 'e' {
			return 3
		}
	case 'l':
		if lowered(2) == 'l' {
			return 3
		}
	}
	if fold && len(s) >= 3 && s[1:3] == "ſ" {
		return 3
	}
	return 0
}
