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
}

// NewSequence begins an empty sequence. It holds nothing until it is extended.
func (p *Pool) NewSequence() *Sequence {
	return &Sequence{pool: p, tables: make([][]int32, len(p.kinds)), gone: make([]int, len(p.kinds))}
}

// Len is how many positions the sequence holds.
func (s *Sequence) Len() int { return s.length }

// Extend makes room for n more positions, to be stored by the next step: n at most the pool's step. Windowed layers first
// give up what no row from here on can see. An error wraps ErrFull and changes nothing else.
func (s *Sequence) Extend(n int) error {
	p := s.pool
	if n < 0 || n > p.config.Step {
		return fmt.Errorf("state: %d positions in one step, want 0 to %d", n, p.config.Step)
	}
	for k := range p.kinds {
		s.pass(k)
	}
	for k := range p.kinds {
		if need, free := s.needs(k, n), len(p.free[k]); need > free {
			return fmt.Errorf("state: %d tokens after %d need %d more pages, of %d bytes each, and %d of %d are free: %w",
				n, s.length, need, p.kinds[k].shape(p.config.Format).PageBytes(), free, len(p.refs[k]), ErrFull)
		}
	}
	for k := range p.kinds {
		if n > 0 && s.shared(k) {
			s.unshare(k)
		}
		for len(s.tables[k])*compute.Page < s.length+n {
			s.tables[k] = append(s.tables[k], p.take(k))
		}
	}
	s.length += n
	return nil
}

// needs is how many pages of a kind n more positions take.
func (s *Sequence) needs(k, n int) int {
	need := ceilDiv(s.length+n, compute.Page) - len(s.tables[k])
	if n > 0 && s.shared(k) {
		need++
	}
	return max(0, need)
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
	w := s.pool.kinds[k].layer.Window
	if w == 0 {
		return
	}
	for ; (s.gone[k]+1)*compute.Page <= s.length+1-w; s.gone[k]++ {
		page := &s.tables[k][s.gone[k]]
		s.pool.drop(k, *page)
		*page = -1
	}
}

// Fork begins a sequence with the same past. The two share their pages; each copies the last one when it next writes to it.
func (s *Sequence) Fork() *Sequence {
	f := s.pool.NewSequence()
	f.length = s.length
	copy(f.gone, s.gone)
	for k, table := range s.tables {
		f.tables[k] = append([]int32(nil), table...)
		for _, page := range table[s.gone[k]:] {
			s.pool.refs[k][page]++
		}
	}
	return f
}

// Truncate forgets the positions from n on. It fails, and changes nothing, if a windowed layer has already given up what the
// row at n would see.
func (s *Sequence) Truncate(n int) error {
	if n < 0 || n > s.length {
		return fmt.Errorf("state: cut a sequence of %d positions to %d", s.length, n)
	}
	for k := range s.tables {
		if w := s.pool.kinds[k].layer.Window; w > 0 && max(0, n+1-w) < s.gone[k]*compute.Page {
			return fmt.Errorf("state: cut a sequence of %d positions to %d: positions below %d are gone from its windowed layers; compute it again",
				s.length, n, s.gone[k]*compute.Page)
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
	return nil
}

// Free gives everything back. The sequence is empty afterwards.
func (s *Sequence) Free() {
	for k, table := range s.tables {
		for _, page := range table[s.gone[k]:] {
			s.pool.drop(k, page)
		}
		s.tables[k], s.gone[k] = nil, 0
	}
	s.length = 0
}
