package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// trie finds all tokens that a text begins with. The children of a node lie side by side, ordered by byte, so that a step
// is a search among few neighbours.
type trie struct {
	nodes []trieNode
	root  [256]int32 // child of the first node by byte, -1 for none
}

type trieNode struct {
	first int32 // of its children
	count int16
	label byte
	id    int32 // the token that ends here, or None
}

// newTrie builds a trie of the texts of some tokens; of two with the same text the one that comes last in ids counts.
func newTrie(texts []string, ids []int32) *trie {
	type entry struct {
		text string
		id   int32
	}
	sorted := make([]entry, 0, len(ids))
	for _, id := range ids {
		if texts[id] != "" {
			sorted = append(sorted, entry{texts[id], id})
		}
	}
	slices.SortStableFunc(sorted, func(a, b entry) int { return strings.Compare(a.text, b.text) })
	t := &trie{nodes: []trieNode{{id: None}}}
	// Nodes are made level by level; each stands for a range of sorted that shares its first depth bytes.
	type level struct{ node, from, to, depth int }
	for queue := []level{{0, 0, len(sorted), 0}}; len(queue) > 0; {
		l := queue[0]
		queue = queue[1:]
		t.nodes[l.node].first = int32(len(t.nodes))
		for i := l.from; i < l.to; {
			text := sorted[i].text
			if len(text) == l.depth {
				t.nodes[l.node].id = sorted[i].id
				i++
				continue
			}
			j := i + 1
			for j < l.to && sorted[j].text[l.depth] == text[l.depth] {
				j++
			}
			queue = append(queue, level{len(t.nodes), i, j, l.depth + 1})
			t.nodes = append(t.nodes, trieNode{label: text[l.depth], id: None})
			t.nodes[l.node].count++
			i = j
		}
	}
	for b := range t.root {
		t.root[b] = -1
	}
	top := t.nodes[0]
	for i := top.first; i < top.first+int32(top.count); i++ {
		t.root[t.nodes[i].label] = i
	}
	return t
}

// step returns the child of a node by byte, -1 for none.
func (t *trie) step(node int32, b byte) int32 {
	if node == 0 {
		return t.root[b]
	}
	n := &t.nodes[node]
	lo, hi := n.first, n.first+int32(n.count)
	for hi-lo > 8 {
		mid := (lo + hi) / 2
		if t.nodes[mid].label < b {
			lo = mid + 1
		} else {
			hi = mid + 1
		}
	}
	for ; lo < hi; lo++ {
		if t.nodes[lo].label == b {
			return lo
		}
	}
	return -1
}

// longest returns the longest token that a text begins with, and its length; 0 for none. It ends where a character does.
func (t *trie) longest(text string) (id int32, n int) {
	node := int32(0)
	for i := range len(text) {
		if node = t.step(node, text[i]); node < 0 {
			break
		}
		if found := t.nodes[node].id; found != None && (i+1 == len(text) || utf8.RuneStart(text[i+1])) {
			id, n = found, i+1
		}
	}
	return id, n
}
