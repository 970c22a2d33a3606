package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind byte

const (
	tokEnd      tokenKind = iota // of the template
	tokData                      // text between tags
	tokPrint                     // {{
	tokPrintEnd                  // }}
	tokBlock                     // {%
	tokBlockEnd                  // %}
	tokName                      // a name or keyword
	tokString                    // a string, unescaped
	tokInt                       // an integer, in decimal
	tokFloat                     // a float
	tokOp                        // an operator or a bracket
)

type token struct {
	kind tokenKind
	text string
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "end of template"
	case tokData:
		return "text"
	}
	return "'" + t.text + "'"
}

// lexer cuts a template into tokens as Jinja2 does with trim_blocks and lstrip_blocks, which transformers sets: the
// newline after a block or comment goes, and so does the blank start of a line before one. A minus sign in the tag takes
// all space on its side, a plus sign keeps it.
type lexer struct {
	src       string
	at        int
	line      int
	tokens    []token
	lineStart bool // the last tag ended in a newline, or there was none yet
}

func lex(source string) ([]token, error) {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.at < len(l.src) {
		if err := l.data(); err != nil {
			return nil, err
		}
	}
	l.add(tokEnd, "")
	return l.tokens, nil
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

func (l *lexer) fail(format string, a ...any) error {
	return &Error{Line: l.line, Message: fmt.Sprintf(format, a...)}
}

// move goes n bytes on and counts lines.
func (l *lexer) move(n int) {
	text := l.src[l.at : l.at+n]
	l.line += strings.Count(text, "\n")
	l.lineStart = strings.HasSuffix(text, "\n")
	l.at += n
}

// sign returns the sign at the start of s, as a string.
func sign(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[:1]
	}
	return ""
}

// data reads text up to the next tag, and that tag.
func (l *lexer) data() error {
	rest := l.src[l.at:]
	open := 0
	for open < len(rest) && !(rest[open] == '{' && open+1 < len(rest) && strings.IndexByte("{%#", rest[open+1]) >= 0) {
		open++
	}
	text := rest[:open]
	if open == len(rest) {
		l.add(tokData, text)
		l.move(len(rest))
		return nil
	}
	kind, mark := rest[open+1], sign(rest[open+2:])
	kept := text
	switch {
	case mark == "-":
		kept = strings.TrimRightFunc(text, isSpace)
	case mark == "" && kind != '{':
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], isSpace) == "" {
			kept = text[:start]
		}
	}
	if kept != "" {
		l.add(tokData, kept)
	}
	l.move(open)
	inside := l.at + 2 + len(mark)
	switch kind {
	case '#':
		end := strings.Index(l.src[inside:], "#}")
		if end < 0 {
			return l.fail("missing end of comment tag")
		}
		l.endTag(inside+end, l.signBefore(inside, inside+end))
		return nil
	case '%':
		if word, after, ok := l.lone(inside); ok && word == "raw" {
			return l.raw(after)
		}
		l.add(tokBlock, "{%")
		l.move(2 + len(mark))
		return l.tag("%}", tokBlockEnd)
	}
	l.add(tokPrint, "{{")
	l.move(2 + len(mark))
	return l.tag("}}", tokPrintEnd)
}

// lone reads a block tag that holds one word; after is the place behind the tag.
func (l *lexer) lone(inside int) (word string, after int, ok bool) {
	end := strings.Index(l.src[inside:], "%}")
	if end < 0 {
		return "", 0, false
	}
	return strings.TrimFunc(strings.TrimRight(l.src[inside:inside+end], "-+"), isSpace), inside + end, true
}

// endTag moves behind the end mark of a block or comment at place end, and the space that its sign or trim_blocks take.
func (l *lexer) endTag(end int, sign byte) {
	after := end + 2
	switch {
	case sign == '-':
		after += len(l.src[after:]) - len(strings.TrimLeftFunc(l.src[after:], isSpace))
	case sign == '+':
	case after < len(l.src) && l.src[after] == '\n':
		after++
	}
	l.move(after - l.at)
}

// signBefore returns the sign before an end mark at place end, if it belongs to the tag whose inside begins at start.
func (l *lexer) signBefore(start, end int) byte {
	if end > start && (l.src[end-1] == '-' || l.src[end-1] == '+') {
		return l.src[end-1]
	}
	return 0
}

// raw reads up to {% endraw %}; end is the place of the opening tag's end mark.
func (l *lexer) raw(end int) error {
	if l.src[end-1] == '-' {
		l.endTag(end, '-')
	} else {
		l.move(end + 2 - l.at)
	}
	for from := l.at; ; {
		i := strings.Index(l.src[from:], "{%")
		if i < 0 {
			return l.fail("missing end of raw directive")
		}
		open := from + i
		mark := sign(l.src[open+2:])
		word, after, ok := l.lone(open + 2 + len(mark))
		if !ok || word != "endraw" {
			from = open + 2
			continue
		}
		text := l.src[l.at:open]
		if mark == "-" {
			text = strings.TrimRightFunc(text, isSpace)
		} else if start := strings.LastIndexByte(text, '\n') + 1; mark == "" && start > 0 && strings.TrimFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
		l.add(tokData, text)
		l.move(open - l.at)
		l.endTag(after, l.signBefore(open+2, after))
		return nil
	}
}

// Longest first: the first that fits is taken.
var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

// tag reads the tokens inside a tag, up to its end mark outside of all brackets.
func (l *lexer) tag(end string, endKind tokenKind) error {
	var brackets []byte
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		if len(brackets) == 0 {
			if strings.HasPrefix(rest, end) || strings.HasPrefix(rest, "-"+end) || end == "%}" && strings.HasPrefix(rest, "+%}") {
				l.add(endKind, end)
				switch {
				case rest[0] == '-' || rest[0] == '+':
					l.endTag(l.at+1, rest[0])
				case end == "%}":
					l.endTag(l.at, 0)
				default:
					l.move(2) // trim_blocks leaves the newline after a printed value
				}
				return nil
			}
		}
		c, size := utf8.DecodeRuneInString(rest)
		switch {
		case isSpace(c):
			l.move(size)
		case c == '"' || c == '\'':
			if err := l.str(byte(c)); err != nil {
				return err
			}
		case c >= '0' && c <= '9':
			if err := l.number(); err != nil {
				return err
			}
		case c == '_' || unicode.IsLetter(c):
			n := size
			for n < len(rest) {
				c, size := utf8.DecodeRuneInString(rest[n:])
				if c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
					break
				}
				n += size
			}
			l.add(tokName, rest[:n])
			l.move(n)
		default:
			op := ""
			for _, o := range operators {
				if strings.HasPrefix(rest, o) {
					op = o
					break
				}
			}
			switch op {
			case "":
				return l.fail("unexpected char %q", c)
			case "(", "[", "{":
				if len(brackets) >= maxNesting {
					return l.fail("brackets are nested more than %d deep", maxNesting)
				}
				brackets = append(brackets, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
			case ")", "]", "}":
				if len(brackets) == 0 {
					return l.fail("unexpected '%s'", op)
				}
				if want := brackets[len(brackets)-1]; want != op[0] {
					return l.fail("unexpected '%s', expected '%c'", op, want)
				}
				brackets = brackets[:len(brackets)-1]
			}
			l.add(tokOp, op)
			l.move(len(op))
		}
	}
	return l.fail("unexpected end of template, expected '%s'", end)
}

func (l *lexer) number() error {
	rest := l.src[l.at:]
	digits := func(from int, set string) int {
		n := from
		for n < len(rest) && (strings.IndexByte(set, rest[n]|0x20) >= 0 || rest[n] == '_' && n > from && n+1 < len(rest) && strings.IndexByte(set, rest[n+1]|0x20) >= 0) {
			n++
		}
		return n
	}
	const decimal = "0123456789"
	base, set, n := 10, decimal, 0
	if len(rest) > 2 && rest[0] == '0' {
		switch rest[1] | 0x20 {
		case 'x':
			base, set = 16, decimal+"abcdef"
		case 'o':
			base, set = 8, "01234567"
		case 'b':
			base, set = 2, "01"
		}
	}
	if base != 10 {
		if n = digits(2, set); n > 2 {
			i, err := strconv.ParseInt(strings.ReplaceAll(rest[2:n], "_", ""), base, 64)
			if err != nil {
				return l.fail("integer %s is too large", rest[:n])
			}
			l.add(tokInt, strconv.FormatInt(i, 10))
			l.move(n)
			return nil
		}
	}
	n = digits(0, decimal)
	kind := tokInt
	if n+1 < len(rest) && rest[n] == '.' && digits(n+1, decimal) > n+1 && !strings.HasSuffix(l.src[:l.at], ".") {
		n, kind = digits(n+1, decimal), tokFloat
	}
	if n < len(rest) && rest[n]|0x20 == 'e' {
		e := n + 1
		if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
			e++
		}
		if end := digits(e, decimal); end > e {
			n, kind = end, tokFloat
		}
	}
	text := strings.ReplaceAll(rest[:n], "_", "")
	if kind == tokInt {
		if text = strings.TrimLeft(text, "0"); text == "" {
			text = "0"
		}
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return l.fail("integer %s is too large", text)
		}
	}
	l.add(kind, text)
	l.move(n)
	return nil
}

// str reads a string and resolves its escapes as Python does; an unknown escape stays as it is.
func (l *lexer) str(quote byte) error {
	rest := l.src[l.at:]
	var b strings.Builder
	for i := 1; i < len(rest); {
		c := rest[i]
		if c == quote {
			l.add(tokString, b.String())
			l.move(i + 1)
			return nil
		}
		if c != '\\' || i+1 == len(rest) {
			b.WriteByte(c)
			i++
			continue
		}
		c = rest[i+1]
		i += 2
		hex := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if k := strings.IndexByte(`\'"abfnrtv`, c); k >= 0 {
			b.WriteByte("\\'\"\a\b\f\n\r\t\v"[k])
		} else if c == '\n' {
			continue
		} else if hex > 0 {
			if i+hex > len(rest) {
				return l.fail("truncated \\%c escape in a string", c)
			}
			code, err := strconv.ParseUint(rest[i:i+hex], 16, 32)
			if err != nil || code > unicode.MaxRune {
				return l.fail("bad \\%c escape in a string", c)
			}
			b.WriteRune(rune(code))
			i += hex
		} else if c >= '0' && c <= '7' {
			code := rune(c - '0')
			for n := 0; n < 2 && i < len(rest) && rest[i] >= '0' && rest[i] <= '7'; n++ {
				code = code*8 + rune(rest[i]-'0')
				i++
			}
			b.WriteRune(code)
		} else {
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return l.fail("a string does not end")
}
