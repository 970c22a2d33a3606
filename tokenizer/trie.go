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
	sorted := make([]int32, 0, len(ids))
	for _, id := range ids {
		if texts[id] != "" {
			sorted = append(sorted, id)
		}
	}
	slices.SortStableFunc(sorted, func(a, b int32) int { return strings.Compare(texts[a], texts[b]) })
	nodes := 1 // beside the root, one for each byte of a text that it does not share with the text before it
	for i, id := range sorted {
		nodes += len(texts[id])
		if i > 0 {
			nodes -= common(texts[sorted[i-1]], texts[id])
		}
	}
	t := &trie{nodes: make([]trieNode, 1, nodes)}
	t.nodes[0].id = None
	// Nodes are made level by level. Each stands for a range of sorted that shares its first depth bytes.
	ranges := make([][2]int32, 1, nodes)
	ranges[0] = [2]int32{0, int32(len(sorted))}
	for node, depth, next := 0, 0, 1; node < len(t.nodes); node++ {
		if node == next { // the first of the next level
			depth, next = depth+1, len(t.nodes)
		}
		t.nodes[node].first = int32(len(t.nodes))
		for i, to := ranges[node][0], ranges[node][1]; i < to; {
			text := texts[sorted[i]]
			if len(text) == depth {
				t.nodes[node].id = sorted[i]
				i++
				continue
			}
			j := i + 1
			for j < to && texts[sorted[j]][depth] == text[depth] {
				j++
			}
			ranges = append(ranges, [2]int32{i, j})
			t.nodes = append(t.nodes, trieNode{label: text[depth], id: None})
			t.nodes[node].count++
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

// common is how many bytes two texts begin with alike.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
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
