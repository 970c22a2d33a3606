package state

import (
	"errors"
	"fmt"
	"slices"

	"memra/compute"
)

// Pool is the pages of a model's sequences on one device. It is not safe for concurrent use; its engine owns it.
type Pool struct {
	config    Config
	kinds     []kind
	of, place []int                // of each layer: its kind, and which of the kind's layers it is
	memory    []compute.PageMemory // of each kind
	refs      [][]int32            // of each kind and page: how many sequences hold it
	free      [][]int32            // of each kind: pages that nobody holds
	idle      []int                // of each kind: pages that only the tree holds
	tree      *Tree                // nil: none
}

// NewPool reserves the pages.
func NewPool(d compute.Device, l Layout, c Config) (*Pool, error) {
	if c.Positions <= 0 || c.Sequences <= 0 || c.Step <= 0 {
		return nil, fmt.Errorf("state: pool of %d positions, %d sequences and steps of %d, want all positive", c.Positions, c.Sequences, c.Step)
	}
	p := &Pool{}
	p.kinds, p.of, p.place = l.kinds()
	if slices.ContainsFunc(p.kinds, kind.isDelta) {
		c.Delta = d.DeltaFormat()
	}
	p.config, p.idle = c, make([]int, len(p.kinds))
	for _, k := range p.kinds {
		n := k.pages(c)
		m, err := k.reserve(d, c, n)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("state: %d pages of %d bytes: %w", n, k.pageBytes(c), err), p.Close())
		}
		free := make([]int32, n)
		for i := range free {
			free[i] = int32(n - 1 - i) // page 0 goes first
		}
		p.memory, p.free, p.refs = append(p.memory, m), append(p.free, free), append(p.refs, make([]int32, n))
	}
	return p, nil
}

// reserve makes room for pages of the kind.
func (k kind) reserve(d compute.Device, c Config, pages int) (compute.PageMemory, error) {
	if k.isDelta() {
		return d.NewDelta(k.delta(c.Delta), pages)
	}
	return d.NewKV(k.shape(c.Format), pages)
}

// Close frees the pages. Sequences are no longer usable.
func (p *Pool) Close() error {
	var err error
	for _, m := range p.memory {
		err = errors.Join(err, m.Close())
	}
	return err
}

// Bytes is what the pool takes; Used is what the pages of living sequences take of it.
func (p *Pool) Bytes() int { return p.bytes(func(k int) int { return len(p.refs[k]) }) }

// Used is the bytes of the pages that sequences hold, or a tree. A shared page counts once.
func (p *Pool) Used() int {
	return p.bytes(func(k int) int { return len(p.refs[k]) - len(p.free[k]) })
}

func (p *Pool) bytes(pages func(kind int) int) int {
	n := 0
	for k := range p.kinds {
		n += pages(k) * p.kinds[k].pageBytes(p.config)
	}
	return n
}

// take gives out a free page of a kind; the caller has made sure that there is one.
func (p *Pool) take(kind int) int32 {
	last := len(p.free[kind]) - 1
	page := p.free[kind][last]
	p.free[kind] = p.free[kind][:last]
	p.refs[kind][page] = 1
	return page
}

// share takes one more hold on a page.
func (p *Pool) share(kind int, page int32) {
	if page >= 0 {
		p.refs[kind][page]++
		if p.refs[kind][page] == 2 && p.tree.holds(kind, page) {
			p.idle[kind]--
		}
	}
}

// drop gives back one hold on a page; a page that is not kept, -1, is nobody's.
func (p *Pool) drop(kind int, page int32) {
	if page < 0 {
		return
	}
	switch p.refs[kind][page]--; {
	case p.refs[kind][page] == 0:
		p.free[kind] = append(p.free[kind], page)
	case p.refs[kind][page] == 1 && p.tree.holds(kind, page):
		p.idle[kind]++
	}
}

// available is how many pages of a kind an Extend may take: those that nobody holds, and those that the tree can give up.
func (p *Pool) available(kind int) int { return len(p.free[kind]) + p.idle[kind] }

// View is what the operations of a step see of the sequences: slot i is the i-th.
type View struct {
	pool   *Pool
	tables [][][]int32 // of each kind and slot
}

// View shows sequences to a step.
func (p *Pool) View(sequences ...*Sequence) *View {
	v := &View{pool: p, tables: make([][][]int32, len(p.kinds))}
	for k := range p.kinds {
		for _, s := range sequences {
			v.tables[k] = append(v.tables[k], s.tables[k])
		}
	}
	return v
}

// KV is the cache of one layer.
func (v *View) KV(layer int) compute.KV {
	k := v.pool.of[layer]
	return compute.KV{Memory: v.pool.memory[k].(compute.KVMemory), Layer: v.pool.place[layer], Tables: v.tables[k]}
}

// Delta is the memory of one delta-net layer.
func (v *View) Delta(layer int) compute.Delta {
	k := v.pool.of[layer]
	return compute.Delta{Memory: v.pool.memory[k].(compute.DeltaMemory), Layer: v.pool.place[layer], Tables: v.tables[k]}
}
