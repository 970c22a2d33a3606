package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// added finds the tokens that are matched in the text before any merging: a trie of their texts, bytes as edges.
type added struct {
	root  [256]int32     // node reached by a first byte, 0 for none
	edges map[edge]int32 // the other nodes
	ids   []int32        // the token that ends at each node, None for none
	rules map[int32]rule // of tokens that have any
}

type edge struct {
	node int32
	b    byte
}

// rule says where a token is found, and what it takes with it.
type rule struct {
	left, right bool // it swallows the white space on that side
	word        bool // it is found only where no word goes on at either end
}

func newAdded() *added {
	return &added{edges: map[edge]int32{}, ids: []int32{None}, rules: map[int32]rule{}}
}

// insert adds a token; of two with the same text the first counts.
func (a *added) insert(text string, id int32) {
	if text == "" {
		return
	}
	node := a.step(0, text[0])
	if node == 0 {
		node = a.grow()
		a.root[text[0]] = node
	}
	for i := 1; i < len(text); i++ {
		next := a.step(node, text[i])
		if next == 0 {
			next = a.grow()
			a.edges[edge{node, text[i]}] = next
		}
		node = next
	}
	if a.ids[node] == None {
		a.ids[node] = id
	}
}

func (a *added) grow() int32 {
	a.ids = append(a.ids, None)
	return int32(len(a.ids) - 1)
}

func (a *added) step(node int32, b byte) int32 {
	if node == 0 {
		return a.root[b]
	}
	return a.edges[edge{node, b}]
}

// empty tells whether there is nothing to find.
func (a *added) empty() bool { return len(a.ids) == 1 }

// find returns the leftmost token in text[from:], of those that start there the longest, and the stretch it takes with
// the white space it swallows; None and the end of text when there is none. One that must be a word of its own and is
// not hides the shorter ones within it, as in Hugging Face's implementation.
func (a *added) find(text string, from int) (id int32, start, end int) {
	for i := from; i < len(text); i++ {
		if a.root[text[i]] == 0 {
			continue
		}
		id, end = None, i
		for j, node := i, int32(0); j < len(text); j++ {
			if node = a.step(node, text[j]); node == 0 {
				break
			}
			if a.ids[node] != None {
				id, end = a.ids[node], j+1
			}
		}
		if id == None {
			continue
		}
		r := a.rules[id]
		if r.word && (wordBefore(text, i) || wordAfter(text, end)) {
			i = end - 1
			continue
		}
		start = i
		if r.left {
			start = from + len(strings.TrimRightFunc(text[from:i], unicode.IsSpace))
		}
		if r.right {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		return id, start, end
	}
	return None, len(text), len(text)
}

func wordBefore(text string, i int) bool {
	r, n := utf8.DecodeLastRuneInString(text[:i])
	return n > 0 && isWord(r)
}

func wordAfter(text string, i int) bool {
	r, n := utf8.DecodeRuneInString(text[i:])
	return n > 0 && isWord(r)
}

// isWord is \w of Unicode's regular expressions (UTS 18): letters, marks, digits, connectors and joiners.
func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
