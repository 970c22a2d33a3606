package state

import (
	"container/heap"

	"memra/compute"
)

// order is nodes by when they were last of use, a heap whose first goes first.
type order []*entry

// entry is a node's place in an order.
type entry struct {
	node  *node
	used  uint64
	place int // in the order, from 1; 0: not in it
}

// long marks uses that count more than any without it: of pages of windows and delta-nets where something ended, a prompt, a sequence or
// a match. Others serve only a request that parts from the rest just there.
const long = 1 << 63

func (o order) Len() int           { return len(o) }
func (o order) Less(i, j int) bool { return o[i].used < o[j].used }

// Swap is for package heap, as are Push and Pop.
func (o order) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i+1, j+1
}

func (o *order) Push(e any) {
	*o = append(*o, e.(*entry))
	(*o)[len(*o)-1].place = len(*o)
}

func (o *order) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	e.place = 0
	return e
}

func (o *order) add(e *entry) { heap.Push(o, e) }

func (o *order) remove(e *entry) {
	if e.place > 0 {
		heap.Remove(o, e.place-1)
	}
}

// use notes when the node was of use.
func (o *order) use(e *entry, used uint64) {
	if e.used = used; e.place > 0 {
		heap.Fix(o, e.place-1)
	}
}

// reclaim evicts until so many pages of a kind are free. The caller knows that as many are free or idle.
func (t *Tree) reclaim(k, pages int) {
	if t == nil {
		return
	}
	window := t.pool.kinds[k].window() > 0
	from := &t.ends
	if window {
		from = &t.kept[k]
	}
	var busy []*entry // that sequences share: they cannot go, and stay
	for len(t.pool.free[k]) < pages && from.Len() > 0 {
		e := (*from)[0]
		switch n := e.node; {
		case t.pool.refs[k][n.pages[k]] > 1:
			busy = append(busy, heap.Pop(from).(*entry))
		case window:
			t.evict(n, k)
			t.release(n, k)
			if len(n.child) == 0 && n.empty() {
				t.remove(n)
			}
		default:
			for k := range n.pages {
				t.evict(n, k)
			}
			t.ghosts.add(n.hash)
			t.remove(n)
		}
	}
	for _, e := range busy {
		from.add(e)
	}
}

// passed hears that a sequence gives up a page, from which others may begin.
func (t *Tree) passed(s *Sequence, k, page int) {
	if t == nil {
		return
	}
	for _, end := range s.ends {
		if from, to := t.pool.kinds[k].sees(end); page >= from && page < to {
			t.value(k, s.tables[k][page])
		}
	}
}

// value notes that a page of a window or a delta-net is of use.
func (t *Tree) value(k int, page int32) {
	if page >= 0 && t.holds(k, page) {
		t.kept[k].use(&t.holder[k][page].kept[k], long|t.tick())
	}
}

// yield makes the last page of a sequence its own without a copy, if nobody but the tree shares it and what lies beyond in the tree.
func (t *Tree) yield(s *Sequence, k int) bool {
	page := s.tables[k][s.length/compute.Page]
	if !t.holds(k, page) {
		return false
	}
	n := t.holder[k][page]
	if t.pool.refs[k][page] > 2 || !t.prune(n) {
		return false
	}
	t.remove(n)
	return true
}

// prune removes what follows a node, as far as no sequence shares it, and reports whether nothing is left.
func (t *Tree) prune(n *node) bool {
	for i := len(n.child) - 1; i >= 0; i-- {
		c := n.child[i]
		for k, page := range c.pages {
			if page >= 0 && t.pool.refs[k][page] > 1 {
				return false
			}
		}
		if !t.prune(c) {
			return false
		}
		t.remove(c)
	}
	return true
}

// ghosts remembers the last nodes that were evicted, to tell why a prefix is not there.
type ghosts struct {
	last [4096]uint64 // hashes
	next int
	has  map[uint64]bool
}

func (g *ghosts) add(hash uint64) {
	if g.has == nil {
		g.has = map[uint64]bool{}
	}
	delete(g.has, g.last[g.next])
	g.last[g.next], g.has[hash] = hash, true
	g.next = (g.next + 1) % len(g.last)
}

// next is the hash of the tokens up to a node's end and more. It is of no use to anybody but ghosts: equality is of tokens.
func (n *node) next(tokens []int32) uint64 {
	h := n.hash
	for _, token := range tokens {
		h = mix(h, uint64(uint32(token)))
	}
	return h
}

func hashText(s string) uint64 {
	h := uint64(len(s))
	for _, c := range []byte(s) {
		h = mix(h, uint64(c))
	}
	return h
}

// mix is a round of splitmix64.
func mix(h, v uint64) uint64 {
	h = (h ^ v) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
