package state

import (
	"errors"
	"fmt"

	"memra/compute"
)

// ErrFull is wrapped by errors about a pool that has no page left.
var ErrFull = errors.New("the KV cache is full")

// Sequence is the state of one sequence of tokens.
type Sequence struct {
	pool   *Pool
	length int
	tables [][]int32 // of each kind: the page of each 64 positions; -1 where the window has passed
	gone   []int     // of each kind: how many of them have passed

	// Of a sequence that Tree.Match began:
	tenant string
	ends   [2]int // where others may begin: where the prompt ends, and where its match found no state
	node   *node  // the deepest that holds full pages of it; nil: none yet
}

// NewSequence begins an empty sequence. It holds nothing until it is extended.
func (p *Pool) NewSequence() *Sequence {
	return &Sequence{pool: p, tables: make([][]int32, len(p.kinds)), gone: make([]int, len(p.kinds))}
}

// Len is how many positions the sequence holds.
func (s *Sequence) Len() int { return s.length }

// Extend makes room for n more positions, to be stored by the next step: n at most the pool's step. Windowed layers first
// give up what no row from here on can see, and a Tree what it has to. An error wraps ErrFull and changes nothing else.
func (s *Sequence) Extend(n int) error {
	p := s.pool
	if n < 0 || n > p.config.Step {
		return fmt.Errorf("state: %d positions in one step, want 0 to %d", n, p.config.Step)
	}
	for k := range p.kinds {
		s.pass(k)
	}
	for k := range p.kinds {
		need, free := s.needs(k, n), p.available(k)
		if need > free && n > 0 && s.shared(k) && p.tree.yield(s, k) {
			need, free = s.needs(k, n), p.available(k)
		}
		if need > free {
			return fmt.Errorf("state: %d tokens after %d need %d more pages, of %d bytes each, and %d of %d are free: %w",
				n, s.length, need, p.kinds[k].pageBytes(p.config), free, len(p.refs[k]), ErrFull)
		}
	}
	for k := range p.kinds {
		p.tree.reclaim(k, s.needs(k, n))
	}
	for k := range p.kinds {
		if n > 0 && s.shared(k) {
			s.unshare(k)
		}
		for have := len(s.tables[k]); have < ceilDiv(s.length+n, compute.Page); have++ {
			page := int32(-1)
			if s.keeps(k, have, n) {
				page = p.take(k)
			}
			s.tables[k] = append(s.tables[k], page)
		}
	}
	s.length += n
	return nil
}

// needs is how many pages of a kind n more positions take.
func (s *Sequence) needs(k, n int) int {
	need := 0
	for page := len(s.tables[k]); page < ceilDiv(s.length+n, compute.Page); page++ {
		if s.keeps(k, page, n) {
			need++
		}
	}
	if n > 0 && s.shared(k) {
		need++
	}
	return need
}

// keeps reports whether n more positions store anything in a page that they come to: of a delta-net's, only the first row's and the
// last one's keep their states.
func (s *Sequence) keeps(k, page, n int) bool {
	return !s.pool.kinds[k].isDelta() || page == s.length/compute.Page || page == (s.length+n-1)/compute.Page
}

// shared reports whether the next position falls into a page that another sequence holds as well.
func (s *Sequence) shared(k int) bool {
	return s.length%compute.Page != 0 && s.pool.refs[k][s.tables[k][s.length/compute.Page]] > 1
}

// unshare gives the sequence its own copy of its last page.
func (s *Sequence) unshare(k int) {
	last := &s.tables[k][s.length/compute.Page]
	page := s.pool.take(k)
	s.pool.memory[k].Copy(int(page), int(*last))
	s.pool.drop(k, *last)
	*last = page
}

// pass frees the pages of a windowed kind that no row from here on sees.
func (s *Sequence) pass(k int) {
	w := s.pool.kinds[k].window()
	if w == 0 {
		return
	}
	for ; (s.gone[k]+1)*compute.Page <= s.length+1-w; s.gone[k]++ {
		page := &s.tables[k][s.gone[k]]
		s.pool.tree.passed(s, k, s.gone[k])
		s.pool.drop(k, *page)
		*page = -1
	}
}

// Fork begins a sequence with the same past. The two share their pages; each copies the last one when it next writes to it.
func (s *Sequence) Fork() *Sequence {
	f := s.pool.NewSequence()
	f.length, f.tenant, f.ends, f.node = s.length, s.tenant, s.ends, s.node
	copy(f.gone, s.gone)
	for k, table := range s.tables {
		f.tables[k] = append([]int32(nil), table...)
		for _, page := range table[s.gone[k]:] {
			s.pool.share(k, page)
		}
	}
	return f
}

// Truncate forgets the positions from n on. It fails, and changes nothing, if a windowed layer or a delta-net has already given up
// what the row at n would see. Rows of the last step can always be dropped, if it had no more than 64.
func (s *Sequence) Truncate(n int) error {
	if n < 0 || n > s.length {
		return fmt.Errorf("state: cut a sequence of %d positions to %d", s.length, n)
	}
	if n == 0 {
		s.Free()
		return nil
	}
	for k := range s.tables {
		if at := s.missing(k, n); at > 0 {
			return fmt.Errorf("state: cut a sequence of %d positions to %d: positions below %d are gone from some of its layers; compute it again",
				s.length, n, at)
		}
	}
	for k, table := range s.tables {
		keep := max(ceilDiv(n, compute.Page), s.gone[k])
		for _, page := range table[keep:] {
			s.pool.drop(k, page)
		}
		s.tables[k] = table[:keep]
	}
	s.length = n
	for s.node != nil && s.node.stop() > n {
		s.node = s.node.parent
	}
	return nil
}

// missing is a position that the row at n would need to be kept, and which is gone with those before it. 0: none is.
func (s *Sequence) missing(k, n int) int {
	if s.pool.kinds[k].window() == 0 {
		return 0
	}
	from, to := s.pool.kinds[k].sees(n)
	for page := from; page < to; page++ {
		if s.tables[k][page] < 0 {
			return (page + 1) * compute.Page
		}
	}
	return 0
}

// Free gives everything back. The sequence is empty afterwards.
func (s *Sequence) Free() {
	for k, table := range s.tables {
		for _, page := range table[s.gone[k]:] {
			s.pool.drop(k, page)
		}
		s.tables[k], s.gone[k] = nil, 0
	}
	s.length, s.node = 0, nil
}
