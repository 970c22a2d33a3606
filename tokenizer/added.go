package tokenizer

import (
	"strings"
	"unicode"
)

// added finds the tokens that are matched in the text before any merging: a trie of their texts, bytes as edges.
type added struct {
	root  [256]int32      // node reached by a first byte, 0 for none
	edges map[edge]int32  // the other nodes
	ids   []int32         // the token that ends at each node, None for none
	strip map[int32]sides // tokens that swallow white space
}

type edge struct {
	node int32
	b    byte
}

// sides says on which sides a token swallows white space.
type sides struct{ left, right bool }

func newAdded() *added {
	return &added{edges: map[edge]int32{}, ids: []int32{None}, strip: map[int32]sides{}}
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

// find returns the leftmost token in text, of those that start there the longest, and the stretch it takes with the
// white space it swallows; None and the end of text when there is none.
func (a *added) find(text string) (id int32, start, end int) {
	for i := range len(text) {
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
		if id != None {
			start = i
			if s := a.strip[id]; s.left {
				start = len(strings.TrimRightFunc(text[:i], unicode.IsSpace))
			}
			if s := a.strip[id]; s.right {
				end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			return id, start, end
		}
	}
	return None, len(text), len(text)
}
