package tokenizer

import (
	"fmt"
	"math/bits"
)

// pairs maps a pair of neighbouring tokens to the merge that joins them: a hash table with open addressing.
type pairs struct {
	slots []pair
	shift uint // 64 - log2(len(slots))
}

type pair struct {
	key  uint64 // left<<32 | right
	rank uint32 // never: the slot is free
	id   int32
}

// newPairs returns a table for at most n pairs, half of it free.
func newPairs(n int) pairs {
	log := bits.Len(uint(2*n + 1))
	p := pairs{make([]pair, 1<<log), uint(64 - log)}
	for i := range p.slots {
		p.slots[i].rank = never
	}
	return p
}

// slot returns the slot of a pair: its own, or the free one where it belongs.
func (p *pairs) slot(left, right int32) *pair {
	key := uint64(uint32(left))<<32 | uint64(uint32(right))
	mask := uint64(len(p.slots) - 1)
	for i := key * 0x9E3779B97F4A7C15 >> p.shift; ; i = (i + 1) & mask {
		if s := &p.slots[i]; s.key == key || s.rank == never {
			return s
		}
	}
}

// insert adds a merge unless the pair has one: the first, which ranks lower, counts.
func (p *pairs) insert(left, right, id int32, rank uint32) {
	if s := p.slot(left, right); s.rank == never {
		*s = pair{uint64(uint32(left))<<32 | uint64(uint32(right)), rank, id}
	}
}

// merge inserts the merge of two tokens, which must be there, as their concatenation must.
func (p *pairs) merge(tokens *texts, rank int, left, right string) error {
	l, r, id := tokens.find(left), tokens.find(right), tokens.find(left+right)
	if l == None || r == None || id == None {
		return fmt.Errorf("tokenizer: merge %d is %q, but the vocabulary lacks a part or the whole; convert again", rank, left+" "+right)
	}
	p.insert(l, r, id, uint32(rank))
	return nil
}
