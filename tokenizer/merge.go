package tokenizer

import (
	"iter"
	"math"
	"slices"
)

// symbol is a stretch of text during merging: a character at first, a token's text in the end.
type symbol struct {
	start, end int32  // its text
	prev, next int32  // its neighbours, -1 at the ends
	id         int32  // its token, or None
	join       int32  // the token that it and its right neighbour merge to
	rank       uint32 // of that merge; never if there is none, or if the symbol is gone
}

// never is the rank of a merge that does not exist.
const never = math.MaxUint32

// joiner knows the merges of a vocabulary.
type joiner interface {
	// pair returns the token that l and its right neighbour r merge to and the merge's rank, never if they do not.
	pair(text string, l, r *symbol) (id int32, rank uint32)
}

// merger is the scratch space of one word's merging: the symbols as a linked list, and a queue of possible merges.
//
// The lowest rank merges first, of equal ranks the leftmost. An entry of the queue is rank<<32 | position, so that numeric
// order is that order. Entries are not removed when a neighbour merges: an entry counts if the symbol at its position still
// has its rank. Each merge removes a symbol and adds at most two entries, so n symbols cost O(n log n).
//
// What a merge makes possible mostly ranks behind what was possible before. So the queue is a sorted list, and a heap of what came
// since, which becomes the next list when this one ends: most entries are sorted once, and never climb through a heap.
type merger struct {
	symbols []symbol
	sorted  []uint64 // from first on, ascending
	first   int
	heap    []uint64
}

// reset forgets the last word and makes room for one of at most n symbols.
func (m *merger) reset(n int) {
	m.symbols, m.heap = slices.Grow(m.symbols[:0], n), slices.Grow(m.heap[:0], n)
	m.sorted, m.first = m.sorted[:0], 0
}

// add appends the symbol text[start:end].
func (m *merger) add(start, end int, id int32) {
	i := int32(len(m.symbols))
	m.symbols = append(m.symbols, symbol{int32(start), int32(end), i - 1, i + 1, id, None, never})
}

// merge merges until no pair of neighbours can. See all for the result.
func (m *merger) merge(text string, j joiner) {
	s := m.symbols
	if len(s) == 0 {
		return
	}
	s[len(s)-1].next = -1
	for i := range s {
		m.consider(text, j, int32(i))
	}
	for {
		top, ok := m.pop()
		if !ok {
			break
		}
		i := int32(uint32(top))
		l := &s[i]
		if l.rank != uint32(top>>32) {
			continue
		}
		r := &s[l.next]
		l.id, l.end, l.next = l.join, r.end, r.next
		r.rank = never
		if l.next >= 0 {
			s[l.next].prev = i
		}
		m.consider(text, j, l.prev)
		m.consider(text, j, i)
	}
}

// all yields the symbols that are left, in order.
func (m *merger) all() iter.Seq[*symbol] {
	return func(yield func(*symbol) bool) {
		if len(m.symbols) == 0 {
			return
		}
		for i := int32(0); i >= 0 && yield(&m.symbols[i]); i = m.symbols[i].next {
		}
	}
}

// consider looks up the merge of symbol i (if any) and its right neighbour.
func (m *merger) consider(text string, j joiner, i int32) {
	if i < 0 {
		return
	}
	l := &m.symbols[i]
	l.rank = never
	if l.next < 0 {
		return
	}
	if l.join, l.rank = j.pair(text, l, &m.symbols[l.next]); l.rank != never {
		m.push(uint64(l.rank)<<32 | uint64(uint32(i)))
	}
}

func (m *merger) push(e uint64) {
	h := append(m.heap, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up] <= e {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	m.heap = h
}

// pop removes the smallest entry; there may be none.
func (m *merger) pop() (e uint64, ok bool) {
	switch {
	case m.first < len(m.sorted):
		if e = m.sorted[m.first]; len(m.heap) > 0 && m.heap[0] < e {
			return m.popHeap(), true
		}
	case len(m.heap) > 0:
		m.sorted, m.heap, m.first = m.heap, m.sorted[:0], 0
		slices.Sort(m.sorted)
		e = m.sorted[0]
	default:
		return 0, false
	}
	m.first++
	return e, true
}

func (m *merger) popHeap() uint64 {
	h := m.heap
	top, e := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	m.heap = h
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1] < h[down] {
			down++
		}
		if h[down] >= e {
			break
		}
		h[i] = h[down]
		i = down
	}
	if len(h) > 0 {
		h[i] = e
	}
	return top
}
