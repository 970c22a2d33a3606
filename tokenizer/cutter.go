package tokenizer

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// cutter cuts a text into pieces, of which some may be dropped or rewritten. first tells that the text, and the piece,
// begins all of the text.
type cutter func(text string, first bool, emit func(piece string, first bool))

// inSeries cuts with the first cutter, each of those pieces with the second, and so on.
func inSeries(all []cutter) cutter {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	head, rest := all[0], inSeries(all[1:])
	return func(text string, first bool, emit func(string, bool)) {
		head(text, first, func(piece string, first bool) {
			if piece != "" {
				rest(piece, first, emit)
			}
		})
	}
}

// scanned is a cutter of scanners, as the byte-level pre-tokenisers have them.
func scanned(chain ...scanner) cutter {
	return func(text string, first bool, emit func(string, bool)) {
		split(text, chain, func(piece string) {
			emit(piece, first)
			first = false
		})
	}
}

// matcher finds the parts of a text that a pattern means. It calls match with each, in order; none is empty.
type matcher func(text string, match func(start, end int))

// literal matches a text.
func literal(what string) matcher {
	return func(text string, match func(start, end int)) {
		for at := 0; ; {
			i := strings.Index(text[at:], what)
			if i < 0 {
				return
			}
			match(at+i, at+i+len(what))
			at += i + len(what)
		}
	}
}

// each matches single characters.
func each(is func(rune) bool) matcher {
	return func(text string, match func(start, end int)) {
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRuneInString(text[i:])
			if is(r) && !(r == utf8.RuneError && n == 1) {
				match(i, i+n)
			}
			i += n
		}
	}
}

// The ways to cut at matches. The names are those of tokenizer.json.
const (
	removed            = "Removed"            // matches are dropped
	isolated           = "Isolated"           // a match is a piece
	mergedWithPrevious = "MergedWithPrevious" // a match ends the piece before it
	mergedWithNext     = "MergedWithNext"     // a match begins the piece after it
	contiguous         = "Contiguous"         // a run of matches is a piece
)

// span is a stretch of text that is a match, or that lies between matches.
type span struct {
	start, end int
	match      bool
}

// spanList is the spans that cover a text. A matcher calls add, which is made once, so that a piece of text costs no allocation.
type spanList struct {
	all    []span
	at     int  // what is covered so far
	invert bool // what is not matched is a match, and the other way round
	add    func(start, end int)
}

var spanLists = sync.Pool{New: func() any {
	l := new(spanList)
	l.add = func(start, end int) {
		if start > l.at {
			l.all = append(l.all, span{l.at, start, l.invert})
		}
		l.all = append(l.all, span{start, end, !l.invert})
		l.at = end
	}
	return l
}}

// spans covers a text. The list goes back to spanLists.
func (m matcher) spans(text string, invert bool) *spanList {
	l := spanLists.Get().(*spanList)
	l.all, l.at, l.invert = l.all[:0], 0, invert
	m(text, l.add)
	if l.at < len(text) {
		l.all = append(l.all, span{l.at, len(text), invert})
	}
	return l
}

// cutAt cuts at what a matcher finds.
func (m matcher) cutAt(behaviour string, invert bool) cutter {
	return func(text string, first bool, emit func(string, bool)) {
		list := m.spans(text, invert)
		defer spanLists.Put(list)
		all := list.all
		switch behaviour {
		case contiguous:
			all = join(all, func(a, b span) bool { return a.match == b.match })
		case mergedWithPrevious:
			all = join(all, func(a, b span) bool { return b.match && !a.match })
		case mergedWithNext:
			all = joinBackwards(all)
		}
		for _, s := range all {
			if behaviour != removed || !s.match {
				emit(text[s.start:s.end], first && s.start == 0)
			}
		}
	}
}

// join merges neighbours, left to right; what a merged span is, its last part says.
func join(all []span, merge func(a, b span) bool) []span {
	kept := all[:0]
	for _, s := range all {
		if n := len(kept); n > 0 && merge(kept[n-1], s) {
			kept[n-1].end, kept[n-1].match = s.end, s.match
		} else {
			kept = append(kept, s)
		}
	}
	return kept
}

// joinBackwards merges each match with what follows it, unless that is a match too.
func joinBackwards(all []span) []span {
	kept := all[:0]
	for i := 0; i < len(all); i++ {
		s := all[i]
		if s.match && i+1 < len(all) && !all[i+1].match {
			s.end = all[i+1].end
			i++
		}
		kept = append(kept, s)
	}
	return kept
}

var (
	bertCut         = inSeries([]cutter{each(unicode.IsSpace).cutAt(removed, false), each(bertPunctuation).cutAt(isolated, false)})
	whitespaceSplit = each(unicode.IsSpace).cutAt(removed, false)
)

// whitespace keeps words, and runs of what is neither word nor white space.
func whitespace(text string, first bool, emit func(string, bool)) {
	kind := func(r rune) int {
		switch {
		case isWord(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		k, end := kind(r), i+n
		for end < len(text) {
			r, n := utf8.DecodeRuneInString(text[end:])
			if kind(r) != k {
				break
			}
			end += n
		}
		if k != 0 {
			emit(text[i:end], first && i == 0)
		}
		i = end
	}
}

// metaspace writes spaces as a mark, and cuts before each.
type metaspace struct {
	mark   string
	prefix string // where a mark is put in front: "always", "first" or "never"
	split  bool
}

func (m metaspace) cut(text string, first bool, emit func(string, bool)) {
	text = strings.ReplaceAll(text, " ", m.mark)
	if (m.prefix == "always" || m.prefix == "first" && first) && !strings.HasPrefix(text, m.mark) {
		text = m.mark + text
	}
	if !m.split {
		emit(text, first)
		return
	}
	literal(m.mark).cutAt(mergedWithNext, false)(text, first, emit)
}

// byteLevel cuts by GPT-2's pattern if words, after a space is put in front if prefix.
func byteLevel(prefix, words bool) cutter {
	cut := scanned(gpt2())
	return func(text string, first bool, emit func(string, bool)) {
		if prefix && !strings.HasPrefix(text, " ") {
			text = " " + text
		}
		if words {
			cut(text, first, emit)
		} else {
			emit(text, first)
		}
	}
}

// escapeBytes writes bytes in GPT-2's alphabet.
func escapeBytes(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(letterOf[s[i]])
	}
	return b.String()
}
