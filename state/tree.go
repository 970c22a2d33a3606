package state

import (
	"slices"

	"memra/compute"
	"memra/state/disk"
)

// Tree remembers prefixes: the pages of tokens that some sequence has computed, given and generated alike, for others to begin with.
//
//	root of a tenant ── 64 tokens ── 64 tokens ── 64 tokens ── 20 tokens       a node is a page of every kind of layer
//	                         │            └────── 64 tokens ── ...             a part of a page ends a branch
//	                         └─ 64 tokens ── ...
//
// A node's pages depend on the tokens up to its end and on nothing else (R1 to R3), so whoever computed them may share them. Layers that
// see everything have a page in each node. Of a window or a delta-net a node may lack it: a prefix can be used up to any position where all
// that its next row sees is there, also in the middle of a node.
//
// The tree's pages are the pool's. Those that no sequence shares count as free, and are evicted when an Extend wants them, least recently
// used first: whole nodes from the ends of branches; of windows and delta-nets any page by itself.
type Tree struct {
	pool   *Pool
	roots  map[string]*node // by tenant
	holder [][]*node        // of each kind and page: the node that holds it; nil: none
	ends   order            // nodes without children
	kept   []order          // of each kind with a window, or of delta-nets: nodes that hold a page
	clock  uint64
	ghosts ghosts
	spill  *spill // nil: what is evicted is lost
}

// node is up to 64 tokens and their pages.
type node struct {
	parent *node
	start  int       // positions before it
	tokens []int32   // 64; fewer at the end of a branch
	child  []*node   // by their tokens, ascending
	hash   uint64    // of all tokens up to its end
	gone   bool      // evicted
	tenant string    // of a root
	key    *disk.Key // nil: not computed yet

	pages []int32 // of each kind; -1: not kept
	end   entry   // in Tree.ends
	kept  []entry // of each kind: in Tree.kept
}

// NewTree gives a pool a tree. A pool has one at most.
func NewTree(p *Pool) *Tree {
	t := &Tree{pool: p, roots: map[string]*node{}, holder: make([][]*node, len(p.kinds)), kept: make([]order, len(p.kinds))}
	for k := range p.kinds {
		t.holder[k] = make([]*node, len(p.refs[k]))
	}
	p.tree = t
	return t
}

// Clear gives up all pages that no sequence shares.
func (t *Tree) Clear() {
	for k := range t.pool.kinds {
		t.reclaim(k, t.pool.available(k))
	}
}

// holds reports whether the tree holds a page; none does where there is no tree.
func (t *Tree) holds(k int, page int32) bool { return t != nil && t.holder[k][page] != nil }

// Bytes is exactly what the tree's pages take, shared ones included.
func (t *Tree) Bytes() int {
	n := 0
	for k, nodes := range t.holder {
		for _, holder := range nodes {
			if holder != nil {
				n += t.pool.kinds[k].pageBytes(t.pool.config)
			}
		}
	}
	return n
}

// Insert offers the full pages of a sequence that Match began, and whose tokens these are, at least as many as it has computed. It is for
// after every step: a delta-net's page is kept if it is offered before the sequence moves on. What it costs is per new page. Pages that
// the tree has already take the place of the sequence's own.
func (t *Tree) Insert(s *Sequence, tokens []int32) {
	n := t.cursor(s)
	for end := n.stop() + compute.Page; end <= s.length; end += compute.Page {
		n = t.add(n, s, tokens[n.stop():end])
	}
	if n.parent != nil {
		s.node = n
	}
}

// Retire offers all that a sequence has computed, the page that it filled in part included, and frees it.
func (t *Tree) Retire(s *Sequence, tokens []int32) {
	t.Insert(s, tokens)
	n := t.cursor(s)
	if n.stop() < s.length {
		t.add(n, s, tokens[n.stop():s.length])
	}
	for _, end := range []int{min(s.ends[0], s.length), min(s.ends[1], s.length), s.length} {
		for k, table := range s.tables {
			if kind := t.pool.kinds[k]; kind.window() > 0 {
				from, to := kind.sees(end)
				for _, page := range table[from:to] {
					t.value(k, page)
				}
			}
		}
	}
	s.Free()
}

// cursor is the deepest node whose pages the sequence has offered, or its tenant's root, which joins the tree with its first child.
func (t *Tree) cursor(s *Sequence) *node {
	if s.node != nil && !s.node.gone {
		return s.node
	}
	if root := t.roots[s.tenant]; root != nil {
		return root
	}
	return newRoot(s.tenant)
}

func newRoot(tenant string) *node { return &node{tenant: tenant, hash: hashText(tenant)} }

// stop is the position after the node's last.
func (n *node) stop() int { return n.start + len(n.tokens) }

// add puts the pages of a sequence where a node's next tokens belong, and returns the node there.
func (t *Tree) add(parent *node, s *Sequence, tokens []int32) *node {
	page := parent.stop() / compute.Page
	i, found := parent.place(tokens)
	if found {
		n := parent.child[i]
		t.merge(n, s, page)
		return n
	}
	offered := make([]int32, len(s.tables))
	for k, table := range s.tables {
		offered[k] = table[page]
	}
	if longer := parent.longer(i, tokens, offered); longer != nil {
		t.touch(longer)
		return longer
	}
	n := t.newNode(parent, i, slices.Clone(tokens))
	t.dropShorter(n, i, offered)
	for k, page := range offered {
		if page >= 0 {
			t.pool.share(k, page)
			t.hold(n, k, page)
		}
	}
	t.touch(n)
	return n
}

// place is where among the children one with such tokens stands, or would.
func (n *node) place(tokens []int32) (i int, found bool) {
	return slices.BinarySearchFunc(n.child, tokens, func(c *node, tokens []int32) int { return slices.Compare(c.tokens, tokens) })
}

// newNode makes a node without pages, child i of its parent.
func (t *Tree) newNode(parent *node, i int, tokens []int32) *node {
	n := &node{parent: parent, start: parent.stop(), tokens: tokens, hash: parent.next(tokens)}
	n.pages, n.kept = make([]int32, len(t.pool.kinds)), make([]entry, len(t.pool.kinds))
	for k := range n.pages {
		n.pages[k] = -1
	}
	if parent.parent == nil {
		t.roots[parent.tenant] = parent
	}
	t.ends.remove(&parent.end)
	parent.child = slices.Insert(parent.child, i, n)
	n.end.node = n
	t.ends.add(&n.end)
	return n
}

// merge makes a sequence and a node share their page of the same tokens: the node takes what it lacks, the sequence gives up its copy
// of what the node has.
func (t *Tree) merge(n *node, s *Sequence, page int) {
	for k := range s.tables {
		mine := &s.tables[k][page]
		switch have := n.pages[k]; {
		case *mine < 0 || *mine == have:
		case have < 0 && t.holds(k, *mine): // as a shorter part of the page
		case have < 0:
			t.pool.share(k, *mine)
			t.hold(n, k, *mine)
		default:
			t.pool.share(k, have)
			t.pool.drop(k, *mine)
			*mine = have
		}
	}
	t.touch(n)
}

// longer is a child that begins with tokens, would stand at place i or after it, and makes the pages offered for them superfluous. nil:
// none.
func (n *node) longer(i int, tokens []int32, offered []int32) *node {
	for _, c := range n.child[i:] {
		if common(c.tokens, tokens) < len(tokens) {
			return nil
		}
		if covers(c.pages, offered) {
			return c
		}
	}
	return nil
}

// dropShorter removes parts of a page that a node, child i of its parent, has grown out of with the pages offered for it.
func (t *Tree) dropShorter(n *node, i int, offered []int32) {
	var shorter []*node
	for i--; i >= 0; i-- {
		c := n.parent.child[i]
		same := common(c.tokens, n.tokens)
		if same == 0 {
			break
		}
		if same == len(c.tokens) && covers(offered, c.pages) {
			shorter = append(shorter, c)
		}
	}
	for _, c := range shorter {
		t.remove(c)
	}
}

// covers reports whether pages of some tokens make others, of the first of these tokens, superfluous: they are of all their kinds, or
// some are the same pages, which only one node can hold.
func covers(pages, others []int32) bool {
	all := true
	for k, other := range others {
		if other >= 0 && pages[k] == other {
			return true
		}
		all = all && (other < 0 || pages[k] >= 0)
	}
	return all
}

// hold notes that a node has a page, on which the caller has taken a hold.
func (t *Tree) hold(n *node, k int, page int32) {
	n.pages[k] = page
	t.holder[k][page] = n
	if t.pool.refs[k][page] == 1 {
		t.pool.idle[k]++
	}
	if t.pool.kinds[k].window() > 0 {
		n.kept[k] = entry{node: n, used: t.tick()}
		t.kept[k].add(&n.kept[k])
	}
}

// release gives a node's page of a kind back.
func (t *Tree) release(n *node, k int) {
	page := n.pages[k]
	if page < 0 {
		return
	}
	t.kept[k].remove(&n.kept[k])
	n.pages[k], t.holder[k][page] = -1, nil
	if t.pool.refs[k][page] == 1 {
		t.pool.idle[k]--
	}
	t.pool.drop(k, page)
}

// remove takes a node without children out, and its parents that have neither children nor pages then.
func (t *Tree) remove(n *node) {
	for k := range n.pages {
		t.release(n, k)
	}
	t.ends.remove(&n.end)
	n.gone = true
	parent := n.parent
	i := slices.Index(parent.child, n)
	parent.child = slices.Delete(parent.child, i, i+1)
	parent.end.used = max(parent.end.used, n.end.used)
	switch {
	case len(parent.child) > 0:
	case parent.parent == nil:
		delete(t.roots, parent.tenant)
		parent.gone = true
	case parent.empty():
		t.remove(parent)
	default:
		t.ends.add(&parent.end)
	}
}

// empty reports whether the node has no page.
func (n *node) empty() bool { return slices.Max(n.pages) < 0 }

// touch marks a node as used now. Those before it are no older: they learn of it when it goes.
func (t *Tree) touch(n *node) { t.ends.use(&n.end, t.tick()) }

func (t *Tree) tick() uint64 {
	t.clock++
	return t.clock
}

// common is how many tokens two lists begin with alike.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
