package state

import (
	"fmt"
	"slices"

	"memra/compute"
)

// Miss is why a match is no longer.
type Miss int

const (
	Whole   Miss = iota // it is as long as it can be
	Nothing             // the tree is empty
	Tenant              // it has prefixes of other tenants only
	Ends                // what is cached ends there
	Differs             // the tokens differ there from what is cached
	Evicted             // what follows has been cached, and has been evicted
	State               // tokens are cached up to there, but not what windows or delta-nets need to go on from there
)

// Found says what a match found.
type Found struct {
	Held int  // tokens that need not be computed
	Miss Miss // why not more
	At   int  // where

	// Cut is where a step of the prompt should end: then the tree learns what delta-nets know there, which this match was lacking. 0:
	// anywhere.
	Cut int
}

// String says why not more is held: "" if nothing is missing.
func (f Found) String() string {
	switch f.Miss {
	case Nothing:
		return "nothing is cached"
	case Tenant:
		return "nothing of this tenant is cached"
	case Ends:
		return fmt.Sprintf("what is cached ends at token %d", f.At)
	case Differs:
		return fmt.Sprintf("tokens differ from what is cached at token %d", f.At)
	case Evicted:
		return fmt.Sprintf("what was cached from token %d on has been evicted", f.At)
	case State:
		return fmt.Sprintf("tokens are cached up to %d, and the state there was not kept", f.At)
	}
	return ""
}

// worth is how many tokens a match must gain to end within a node, where tokens differ: its first step copies the page.
const worth = 16

// Match begins a sequence with the longest prefix of tokens that the tree has of a tenant, and everything that the next row needs. It
// shares the prefix's pages; Insert and Retire take it. To get logits of a prompt's last token, match those before it.
func (t *Tree) Match(tenant string, tokens []int32) (*Sequence, Found) {
	s := t.pool.NewSequence()
	s.tenant, s.ends[0] = tenant, len(tokens)
	root := t.roots[tenant]
	if root == nil {
		return s, t.unknown(tenant, tokens)
	}
	path := root.follow(tokens)
	for n := len(path); n >= 0 && !t.takeAfter(s, root, path[:n], tokens); n-- {
	}
	last := deepest(root, path)
	at := last.stop()
	rest := tokens[at:]
	alike := last.alike(rest)
	kept := at // where the match would end if nothing were lacking
	if len(alike) > 0 {
		if same := common(alike[0].tokens, rest); pays(same, alike[0].tokens, rest) {
			kept += same
		}
	}
	f := Found{Held: s.length}
	switch {
	case s.length == len(tokens):
	case s.length < kept:
		f.Miss, f.At = State, kept
		if slices.ContainsFunc(t.pool.kinds, kind.isDelta) && kept < len(tokens) {
			f.Cut, s.ends[1] = kept, kept
		}
	case len(rest) >= compute.Page && t.ghosts.has[last.next(rest[:compute.Page])]:
		f.Miss, f.At = Evicted, at
	case len(alike) > 0 && kept < alike[0].stop():
		f.Miss, f.At = Differs, at+common(alike[0].tokens, rest)
	case len(alike) == 0 && len(last.child) > 0:
		f.Miss, f.At = Differs, at
	default:
		f.Miss, f.At = Ends, s.length
	}
	return s, f
}

// takeAfter gives an empty sequence what it can have of a path: all of it, and the beginning of a page after it.
func (t *Tree) takeAfter(s *Sequence, root *node, path []*node, tokens []int32) bool {
	last := deepest(root, path)
	at := last.stop()
	for _, c := range last.alike(tokens[at:]) {
		same := common(c.tokens, tokens[at:])
		if !pays(same, c.tokens, tokens[at:]) {
			break
		}
		if t.take(s, append(slices.Clip(path), c), at+same) {
			return true
		}
	}
	return at > 0 && t.take(s, path, at)
}

// deepest is the last node of a path from a root.
func deepest(root *node, path []*node) *node {
	if len(path) == 0 {
		return root
	}
	return path[len(path)-1]
}

// pays reports whether so many tokens that a node and a request have in common are worth a match: all of either, or enough.
func pays(same int, node, request []int32) bool {
	return same >= min(worth, len(node), len(request))
}

// unknown says why a tenant has nothing.
func (t *Tree) unknown(tenant string, tokens []int32) Found {
	switch root := newRoot(tenant); {
	case len(tokens) == 0:
		return Found{}
	case len(tokens) >= compute.Page && t.ghosts.has[root.next(tokens[:compute.Page])]:
		return Found{Miss: Evicted}
	case len(t.roots) > 0:
		return Found{Miss: Tenant}
	}
	return Found{Miss: Nothing}
}

// follow is the nodes of whole pages that tokens lead along.
func (n *node) follow(tokens []int32) (path []*node) {
	for len(tokens) >= compute.Page {
		i, found := n.place(tokens[:compute.Page])
		if !found {
			break
		}
		n, tokens = n.child[i], tokens[compute.Page:]
		path = append(path, n)
	}
	return path
}

// alike is the children that begin with at least one of the tokens, those with most first.
func (n *node) alike(tokens []int32) (alike []*node) {
	after, _ := n.place(tokens)
	same := func(i int) int {
		if i < 0 || i >= len(n.child) {
			return 0
		}
		return common(n.child[i].tokens, tokens)
	}
	for before := after - 1; ; { // the likest are neighbours of the place where tokens belong
		b, a := same(before), same(after)
		switch {
		case a == 0 && b == 0:
			return alike
		case a >= b:
			alike = append(alike, n.child[after])
			after++
		default:
			alike = append(alike, n.child[before])
			before--
		}
	}
}

// take gives an empty sequence the first positions of a path, if all is there that the row after them sees.
func (t *Tree) take(s *Sequence, path []*node, positions int) bool {
	for k, kind := range t.pool.kinds {
		from, to := kind.sees(positions)
		for _, n := range path[from:to] {
			if n.pages[k] < 0 {
				return false
			}
		}
	}
	for k, kind := range t.pool.kinds {
		from, to := kind.sees(positions)
		s.gone[k] = from
		for i, n := range path[:to] {
			page := int32(-1)
			if i >= from {
				page = n.pages[k]
				t.pool.share(k, page)
				if kind.window() > 0 {
					t.value(k, page)
				}
			}
			s.tables[k] = append(s.tables[k], page)
		}
	}
	s.length = positions
	t.touch(path[len(path)-1])
	if full := positions / compute.Page; full > 0 {
		s.node = path[full-1]
	}
	return true
}
