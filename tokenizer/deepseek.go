package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// deepseekLLM is DeepSeek LLM's chain: line breaks, words with a white space in front or not, punctuation likewise,
// white space at the end, Chinese, numbers.
func deepseekLLM() []scanner {
	return []scanner{
		isolate(lineBreak),
		isolate(spaced(func(r rune, _ class) bool { return unicode.Is(casedLetters, r) })),
		isolate(spaced(func(r rune, _ class) bool { return unicode.Is(deepseekPunctuation, r) })),
		trailingSpace,
		isolate(runOf(chinese)),
		isolate(run(number, 1)),
	}
}

// deepseekCoder is DeepSeek Coder's chain, which asks Unicode what a letter is and what punctuation.
func deepseekCoder() []scanner {
	return []scanner{
		isolate(lineBreak),
		isolate(spaced(func(_ rune, c class) bool { return c.is(letter) })),
		isolate(spaced(func(_ rune, c class) bool { return c.is(punct) })),
		isolate(runOf(chinese)),
		isolate(run(number, 1)),
	}
}

// deepseekV3 is the chain of DeepSeek V3 and R1: numbers by three, Chinese and Japanese, and then
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseekV3() []scanner {
	return []scanner{isolate(run(number, 3)), isolate(runOf(hanOrKana)), isolate(deepseekV3Word)}
}

func deepseekV3Word(s string) int {
	t := classes()
	if b := s[0]; b < utf8.RuneSelf && t[b].is(punct|sign) {
		i := 1
		for i < len(s) && s[i] < utf8.RuneSelf && t[s[i]].is(upper|lower) {
			i++
		}
		if i > 1 {
			return i
		}
	}
	r, c, n := at(t, s, 0)
	i := 0
	if !c.is(letter|punct|sign) && r != '\r' && r != '\n' {
		i = n
	}
	if end := runFrom(s, i, letter|mark, 0); end > i {
		return end
	}
	if c.is(letter | mark) {
		return n
	}
	i = 0 // a space or none, then punctuation
	if r == ' ' {
		i = n
	}
	if end := runFrom(s, i, punct|sign, 0); end > i {
		for i = end; i < len(s) && (s[i] == '\r' || s[i] == '\n'); {
			i++
		}
		return i
	}
	return lines(s)
}

func lineBreak(s string) int {
	if s[0] == '\r' || s[0] == '\n' {
		return 1
	}
	return 0
}

// spaced matches \s?[...]+ for a set of characters.
func spaced(in func(rune, class) bool) func(s string) int {
	t, word := classes(), runOf(in)
	return func(s string) int {
		i := 0
		if _, c, n := at(t, s, 0); c.is(space) {
			i = n
		}
		if n := word(s[i:]); n > 0 {
			return i + n
		}
		return word(s)
	}
}

// runOf matches [...]+ for a set of characters.
func runOf(in func(rune, class) bool) func(s string) int {
	t := classes()
	return func(s string) int {
		i := 0
		for {
			r, c, n := at(t, s, i)
			if n == 0 || !in(r, c) {
				return i
			}
			i += n
		}
	}
}

// trailingSpace isolates \s+$.
func trailingSpace(s string) int {
	t := classes()
	end := len(s)
	for end > 0 {
		r, n := utf8.DecodeLastRuneInString(s[:end])
		if !t[r].is(space) {
			break
		}
		end -= n
	}
	if end == 0 {
		return len(s)
	}
	return end
}

func chinese(r rune, _ class) bool {
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x0800 && r <= 0x4E00 || r >= 0xAC00 && r <= 0xD7FF
}

func hanOrKana(r rune, _ class) bool {
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF
}

var deepseekPunctuation = &unicode.RangeTable{
	R16: []unicode.Range16{
		{'!', '/', 1}, {':', '~', 1}, {'\u2018', '\u201F', 1}, {'\u3000', '\u3002', 1}, {'\uFF01', '\uFF0F', 1}, {'\uFF1A', '\uFF5E', 1},
	},
	LatinOffset: 2,
}

// casedLetters is the set of letters with case that DeepSeek LLM's pattern spells out.
var casedLetters = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0041, 0x005A, 1}, {0x0061, 0x007A, 1}, {0x00B5, 0x00B5, 1}, {0x00C0, 0x00D6, 1}, {0x00D8, 0x00F6, 1}, {0x00F8, 0x01BA, 1},
		{0x01BC, 0x01BF, 1}, {0x01C4, 0x0293, 1}, {0x0295, 0x02AF, 1}, {0x0370, 0x0373, 1}, {0x0376, 0x0376, 1}, {0x0377, 0x0377, 1},
		{0x037B, 0x037D, 1}, {0x037F, 0x037F, 1}, {0x0386, 0x0386, 1}, {0x0388, 0x038A, 1}, {0x038C, 0x038C, 1}, {0x038E, 0x03A1, 1},
		{0x03A3, 0x03F5, 1}, {0x03F7, 0x0481, 1}, {0x048A, 0x052F, 1}, {0x0531, 0x0556, 1}, {0x10A0, 0x10C5, 1}, {0x13A0, 0x13F5, 1},
		{0x13F8, 0x13FD, 1}, {0x1C90, 0x1CBA, 1}, {0x1CBD, 0x1CBF, 1}, {0x1D00, 0x1D2B, 1}, {0x1D6B, 0x1D77, 1}, {0x1D79, 0x1D9A, 1},
		{0x1E00, 0x1F15, 1}, {0x1F18, 0x1F1D, 1}, {0x1F20, 0x1F45, 1}, {0x1F48, 0x1F4D, 1}, {0x1F50, 0x1F57, 1}, {0x1F59, 0x1F59, 1},
		{0x1F5B, 0x1F5B, 1}, {0x1F5D, 0x1F5D, 1}, {0x1F5F, 0x1F7D, 1}, {0x1F80, 0x1FB4, 1}, {0x1FB6, 0x1FBC, 1}, {0x1FBE, 0x1FBE, 1},
		{0x1FC2, 0x1FC4, 1}, {0x1FC6, 0x1FCC, 1}, {0x1FD0, 0x1FD3, 1}, {0x1FD6, 0x1FDB, 1}, {0x1FE0, 0x1FEC, 1}, {0x1FF2, 0x1FF4, 1},
		{0x1FF6, 0x1FFC, 1}, {0x2102, 0x2102, 1}, {0x2107, 0x2107, 1}, {0x210A, 0x2113, 1}, {0x2115, 0x2115, 1}, {0x2119, 0x211D, 1},
		{0x2124, 0x2124, 1}, {0x2126, 0x2126, 1}, {0x2128, 0x2128, 1}, {0x212A, 0x212D, 1}, {0x212F, 0x2134, 1}, {0x2139, 0x2139, 1},
		{0x213C, 0x213F, 1}, {0x2145, 0x2149, 1}, {0x214E, 0x214E, 1}, {0x2183, 0x2183, 1}, {0x2184, 0x2184, 1}, {0x2C00, 0x2C7B, 1},
		{0x2C7E, 0x2CE4, 1}, {0x2CEB, 0x2CEE, 1}, {0x2CF2, 0x2CF2, 1}, {0x2CF3, 0x2CF3, 1}, {0xA640, 0xA66D, 1}, {0xA680, 0xA69B, 1},
		{0xA722, 0xA76F, 1}, {0xA771, 0xA787, 1}, {0xA78B, 0xA78E, 1}, {0xAB70, 0xABBF, 1}, {0xFB00, 0xFB06, 1}, {0xFB13, 0xFB17, 1},
		{0xFF21, 0xFF3A, 1}, {0xFF41, 0xFF5A, 1},
	},
	R32: []unicode.Range32{
		{0x10400, 0x1044F, 1}, {0x104B0, 0x104D3, 1}, {0x104D8, 0x104FB, 1}, {0x10C80, 0x10CB2, 1}, {0x10CC0, 0x10CF2, 1}, {0x118A0, 0x118DF, 1},
		{0x1E900, 0x1E943, 1},
	},
	LatinOffset: 5,
}
