package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The regular expressions of tokenizer.json are Oniguruma's. This is the part of them that tokenizers use: literals, classes
// (with properties, negation, intersection), groups, alternatives, greedy, lazy and possessive repetition, line anchors,
// (?i), and lookahead at a fixed number of characters. All else is refused, and so is a pattern that matches nothing at all.

// regexNode is one of *charset, regexCat, regexAlt, regexRepeat, regexLook, regexAnchor.
type regexNode any

type (
	regexCat    []regexNode
	regexAlt    []regexNode
	regexRepeat struct {
		node     regexNode
		min, max int // -1: no limit
		mode     byte
	}
	regexLook struct {
		node regexNode
		not  bool
	}
	regexAnchor byte // '^' or '$', of a line; 'A' or 'z', of the text
)

// The modes of repetition.
const (
	greedy     = '+'
	lazy       = '?'
	possessive = '*'
)

type regexParser struct {
	rest  string
	fold  bool
	depth int
}

// limits of a pattern, which comes from a file.
const (
	regexLength = 1 << 15
	regexDepth  = 50
	regexTimes  = 1000
	regexSize   = 10_000

	regexChoices = 256 // a bit of memory for each byte of a text and each choice
)

func parseRegex(pattern string) (regexNode, error) {
	p := &regexParser{rest: pattern}
	n, err := p.alternatives()
	if err == nil && p.rest != "" {
		err = errors.New("a parenthesis is closed that was not opened")
	}
	return n, err
}

func (p *regexParser) peek(s string) bool { return strings.HasPrefix(p.rest, s) }

func (p *regexParser) eat(s string) bool {
	ok := p.peek(s)
	if ok {
		p.rest = p.rest[len(s):]
	}
	return ok
}

func (p *regexParser) next() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *regexParser) alternatives() (regexNode, error) {
	if p.depth++; p.depth > regexDepth {
		return nil, errors.New("groups are nested too deeply")
	}
	defer func() { p.depth-- }()
	var alt regexAlt
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		alt = append(alt, n)
		if !p.eat("|") {
			break
		}
	}
	if len(alt) == 1 {
		return alt[0], nil
	}
	return alt, nil
}

func (p *regexParser) sequence() (regexNode, error) {
	var cat regexCat
	for p.rest != "" && !p.peek("|") && !p.peek(")") {
		if p.eat("(?i)") {
			p.fold = true
			continue
		}
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n, err = p.repeated(n); err != nil {
			return nil, err
		}
		cat = append(cat, n)
	}
	if p.fold {
		for i := 1; i < len(cat); i++ {
			if err := foldsAlone(cat[i-1], cat[i]); err != nil {
				return nil, err
			}
		}
	}
	return cat, nil
}

// foldsAlone refuses two characters that together are another one in another case, as ss is ß.
func foldsAlone(a, b regexNode) error {
	for _, pair := range []string{"ss", "ff", "fi", "fl", "st"} {
		x, ok := a.(*charset)
		y, ok2 := b.(*charset)
		if ok && ok2 && x.has(rune(pair[0]), classes()[pair[0]]) && y.has(rune(pair[1]), classes()[pair[1]]) {
			return fmt.Errorf("(?i) before %q is not supported", pair)
		}
	}
	return nil
}

func (p *regexParser) atom() (regexNode, error) {
	switch {
	case p.eat("(?:"):
		return p.group(p.fold)
	case p.eat("(?i:"):
		return p.group(true)
	case p.eat("(?="):
		n, err := p.group(p.fold)
		return regexLook{n, false}, err
	case p.eat("(?!"):
		n, err := p.group(p.fold)
		return regexLook{n, true}, err
	case p.peek("(?"):
		return nil, fmt.Errorf("%.4s is not supported", p.rest)
	case p.eat("("):
		return p.group(p.fold)
	case p.eat("["):
		return p.set()
	case p.eat("."):
		return (&charset{parts: []charPart{runes('\n', '\n')}, not: true}).freeze(), nil
	case p.eat("^"):
		return regexAnchor('^'), nil
	case p.eat("$"):
		return regexAnchor('$'), nil
	case p.eat(`\A`):
		return regexAnchor('A'), nil
	case p.eat(`\z`):
		return regexAnchor('z'), nil
	case p.peek("*"), p.peek("+"), p.peek("?"):
		return nil, fmt.Errorf("%.1s repeats nothing", p.rest)
	case p.eat(`\`):
		part, _, err := p.escape()
		return (&charset{parts: []charPart{part}, fold: p.fold}).freeze(), err
	}
	r := p.next()
	return (&charset{parts: []charPart{runes(r, r)}, fold: p.fold}).freeze(), nil
}

func (p *regexParser) group(fold bool) (regexNode, error) {
	outer := p.fold
	p.fold = fold
	n, err := p.alternatives()
	p.fold = outer
	if err == nil && !p.eat(")") {
		err = errors.New("a parenthesis is not closed")
	}
	return n, err
}

func (p *regexParser) repeated(n regexNode) (regexNode, error) {
	r := regexRepeat{node: n, mode: greedy}
	counted := false
	switch {
	case p.eat("*"):
		r.max = -1
	case p.eat("+"):
		r.min, r.max = 1, -1
	case p.eat("?"):
		r.max = 1
	case p.peek("{"):
		inner, rest, ok := strings.Cut(p.rest[1:], "}")
		if !ok {
			return nil, errors.New("{ is not closed; write \\{ for the character")
		}
		lo, hi, ranged := strings.Cut(inner, ",")
		var err, err2 error
		if r.min = 0; lo != "" {
			r.min, err = strconv.Atoi(lo)
		}
		switch r.max = r.min; {
		case ranged && hi == "":
			r.max = -1
		case ranged:
			r.max, err2 = strconv.Atoi(hi)
		}
		if err != nil || err2 != nil || inner == "" || inner == "," || r.min < 0 || r.max >= 0 && r.max < r.min || max(r.min, r.max) > regexTimes {
			return nil, fmt.Errorf("{%s} is not a number of times, or too many (at most %d)", inner, regexTimes)
		}
		p.rest, counted = rest, true
	default:
		return n, nil
	}
	if p.peek("?") || p.peek("+") {
		if counted { // Oniguruma means something else by these
			return nil, fmt.Errorf("}%.1s is not supported", p.rest)
		}
		r.mode = lazy
		if p.eat("+") {
			r.mode = possessive
		} else {
			p.eat("?")
		}
	}
	if p.peek("*") || p.peek("+") || p.peek("?") || p.peek("{") {
		return nil, fmt.Errorf("%.1s repeats a repetition", p.rest)
	}
	if _, ok := n.(*charset); r.mode == possessive && !ok {
		return nil, errors.New("possessive repetition of a group is not supported")
	}
	if r.max != 0 && matchesEmpty(n) {
		return nil, errors.New("a repetition of what may be empty is not supported")
	}
	return r, nil
}

// matchesEmpty tells whether a pattern may match no character.
func matchesEmpty(n regexNode) bool {
	switch n := n.(type) {
	case *charset:
		return false
	case regexCat:
		for _, x := range n {
			if !matchesEmpty(x) {
				return false
			}
		}
	case regexAlt:
		for _, x := range n {
			if matchesEmpty(x) {
				return true
			}
		}
		return false
	case regexRepeat:
		return n.min == 0 || matchesEmpty(n.node)
	}
	return true
}

// set reads a class behind its [.
func (p *regexParser) set() (*charset, error) {
	if p.depth++; p.depth > regexDepth {
		return nil, errors.New("classes are nested too deeply")
	}
	defer func() { p.depth-- }()
	s := &charset{fold: p.fold, not: p.eat("^")}
	for first := true; ; first = false {
		switch {
		case p.rest == "":
			return nil, errors.New("a class is not closed")
		case !first && p.eat("]"):
			return s.freeze(), nil
		case p.eat("&&"):
			// What follows, to the end of the class, is a class of its own.
			rest := &regexParser{rest: p.rest, fold: p.fold, depth: p.depth}
			other, err := rest.set()
			if err != nil {
				return nil, err
			}
			if p.rest = rest.rest; other.not {
				return nil, errors.New("&&^ is not supported; write &&[^...]")
			}
			s.and = append(s.and, other)
			return s.freeze(), nil
		case p.peek("[:"):
			return nil, fmt.Errorf("%.6s is not supported", p.rest)
		case p.eat("["):
			inner, err := p.set()
			if err != nil {
				return nil, err
			}
			s.parts = append(s.parts, charPart{set: inner})
			continue
		}
		lo, single, err := p.member()
		if err != nil {
			return nil, err
		}
		if single && p.peek("-") && !p.peek("-]") {
			p.eat("-")
			hi, ok, err := p.member()
			if err != nil {
				return nil, err
			}
			if !ok || hi.lo < lo.lo {
				return nil, errors.New("a range in a class ends before it begins, or at a class")
			}
			lo.hi = hi.hi
		}
		s.parts = append(s.parts, lo)
	}
}

// member reads a character or an escape of a class; single tells that it is one character.
func (p *regexParser) member() (part charPart, single bool, err error) {
	if p.eat(`\`) {
		return p.escape()
	}
	r := p.next()
	return runes(r, r), true, nil
}

// escape reads what follows a backslash.
func (p *regexParser) escape() (part charPart, single bool, err error) {
	if p.rest == "" {
		return part, false, errors.New("nothing follows the last \\")
	}
	not := func(s *charset) charPart { return charPart{set: &charset{parts: []charPart{{set: s}}, not: true}} }
	just := func(parts ...charPart) *charset { return &charset{parts: parts} }
	digit, _ := property("Nd")
	switch r := p.next(); r {
	case 's':
		return charPart{class: space}, false, nil
	case 'S':
		return not(just(charPart{class: space})), false, nil
	case 'd':
		return digit, false, nil
	case 'D':
		return not(just(digit)), false, nil
	case 'w':
		return charPart{set: wordSet()}, false, nil
	case 'W':
		return not(wordSet()), false, nil
	case 'p', 'P':
		name, rest, ok := strings.Cut(strings.TrimPrefix(p.rest, "{"), "}")
		if !ok || !p.peek("{") {
			return part, false, fmt.Errorf("\\%c wants a name in braces", r)
		}
		p.rest = rest
		name, negated := strings.CutPrefix(name, "^")
		part, err = property(name)
		if negated != (r == 'P') {
			part = not(just(part))
		}
		return part, false, err
	case 'n', 'r', 't', 'f', 'v':
		c := map[rune]rune{'n': '\n', 'r': '\r', 't': '\t', 'f': '\f', 'v': '\v'}[r]
		return runes(c, c), true, nil
	case 'x', 'u':
		digits := ""
		switch inner, rest, ok := strings.Cut(strings.TrimPrefix(p.rest, "{"), "}"); {
		case r == 'x' && p.peek("{") && ok:
			digits, p.rest = inner, rest
		case r == 'x' && len(p.rest) >= 2:
			digits, p.rest = p.rest[:2], p.rest[2:]
		case r == 'u' && len(p.rest) >= 4:
			digits, p.rest = p.rest[:4], p.rest[4:]
		}
		v, err := strconv.ParseUint(digits, 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) || r == 'x' && len(digits) == 2 && v >= utf8.RuneSelf {
			return part, false, fmt.Errorf("\\%c%s is no character", r, digits)
		}
		return runes(rune(v), rune(v)), true, nil
	default:
		if r >= utf8.RuneSelf || r == '_' || !isWord(r) {
			return runes(r, r), true, nil
		}
		return part, false, fmt.Errorf("\\%c is not supported", r)
	}
}
