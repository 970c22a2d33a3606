package state

import (
	"fmt"
	"slices"

	"memra/compute"
)

// Pages counts pages of each kind of layer. Only counts of one pool can be compared.
type Pages []int

// Total is all pages of the pool; Free is those that an Extend can take.
func (p *Pool) Total() Pages {
	n := make(Pages, len(p.kinds))
	for k := range n {
		n[k] = len(p.refs[k])
	}
	return n
}

// Free is the pages that an Extend can take: nobody holds them, or nobody but a tree.
func (p *Pool) Free() Pages {
	n := make(Pages, len(p.kinds))
	for k := range n {
		n[k] = p.available(k)
	}
	return n
}

// Takes is the most pages that one sequence holds on its way to so many positions: those of a layer with a window, or of a delta-net,
// stop growing.
func (p *Pool) Takes(positions int) Pages {
	n := make(Pages, len(p.kinds))
	for k, kind := range p.kinds {
		n[k] = ceilDiv(positions, compute.Page)
		if kind.window() > 0 {
			n[k] = min(n[k], kind.windowPages(p.config.Step))
		}
	}
	return n
}

// Holds is the pages that the sequence holds, shared ones included, but for one that the next position has to copy.
func (s *Sequence) Holds() Pages {
	n := make(Pages, len(s.tables))
	for k, table := range s.tables {
		n[k] = len(table) - s.gone[k]
		if s.shared(k) {
			n[k]--
		}
		if !s.pool.kinds[k].isDelta() {
			continue
		}
		for _, page := range table[s.gone[k]:] { // two or three, and those that a long step did not keep
			if page < 0 {
				n[k]--
			}
		}
	}
	return n
}

// Add adds b to n.
func (n Pages) Add(b Pages) {
	for k := range n {
		n[k] += b[k]
	}
}

// Sub takes b from n, kind by kind, and no kind below zero.
func (n Pages) Sub(b Pages) {
	for k := range n {
		n[k] = max(0, n[k]-b[k])
	}
}

// Within reports whether n is at most b in every kind.
func (n Pages) Within(b Pages) bool {
	for k := range n {
		if n[k] > b[k] {
			return false
		}
	}
	return true
}

// Step is the most rows of one sequence in a step.
func (p *Pool) Step() int { return p.config.Step }

// Fits reports a sequence of so many positions that all pages of the pool could not hold, with both numbers and what would fit.
func (p *Pool) Fits(positions int) error {
	need, all := p.Takes(positions), p.Total()
	if need.Within(all) {
		return nil
	}
	k := slices.IndexFunc(p.kinds, func(k kind) bool { return k.window() == 0 })
	if k < 0 || need[k] <= all[k] {
		k = 0
		for need[k] <= all[k] {
			k++
		}
	}
	return fmt.Errorf("state: %d tokens need %d pages of %d tokens, the pool has %d: %d tokens would fit: %w",
		positions, need[k], compute.Page, all[k], all[k]*compute.Page, ErrFull)
}
