package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// Every row is in one tile, every page of a tile in one work, and a tile's works fill its entries without gap or overlap.
func TestAPlanOfAttentionCoversEveryRowAndPageOnce(t *testing.T) {
	d := &Device{multiprocessors: 132}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		kvHeads, group, window := 1+rng.IntN(8), []int{1, 2, 3, 4, 8, 16, 20, 130}[rng.IntN(8)], []int{0, 0, 100, 1024}[rng.IntN(4)]
		forms := d.attendForms(compute.KVShape{HeadDim: []int{64, 128, 256, 512}[rng.IntN(4)], Format: []compute.KVFormat{compute.KVF16, compute.KVQ8}[rng.IntN(2)]})
		b := new(compute.Batch)
		var tables [][]int32
		for slot := range 1 + rng.IntN(20) {
			from, n := rng.IntN(1<<rng.IntN(18)), 1+rng.IntN(1<<rng.IntN(9))
			if slot > 2 {
				n = 1
			}
			for p := from; p < from+n; p++ {
				b.Add(0, p, slot-rng.IntN(200)/199, false)
			}
			table := make([]int32, (from+n)/compute.Page+1)
			for i := range table {
				table[i] = int32(slot*10000 + i)
			}
			tables = append(tables, table)
		}
		for i := range b.Slots { // of a slot whose table may be shorter
			if s := b.Slots[i]; round%20 == 0 || s >= 0 && int(b.Positions[i])/compute.Page >= len(tables[s]) { // all of them padding now and then
				b.Slots[i] = -1
			}
		}
		var written pageSet
		written.add(b, tables)
		var parts [2]attendPart
		order, works := planAttention(b, tables, written, kvHeads, group, window, forms, &parts)
		seen := map[int32]int{}
		pages := map[string]int{} // by the tile's first row and the page
		for i, part := range parts {
			entries := map[int32]bool{}
			for _, w := range works[i] {
				if w.slot >= 0 && int(w.rows)*min(group, part.heads) > part.pairs {
					t.Fatalf("round %d: %d rows of %d heads in a tile of %d", round, w.rows, group, part.pairs)
				}
				if w.entry == 0 {
					for r := range w.rows {
						seen[order[w.at+r].row]++
					}
				}
				for p := w.first; p < w.end; p++ {
					pages[fmt.Sprint(w.at, " ", p)]++
				}
				if w.slot < 0 || w.total == 1 {
					continue
				}
				splits := int32(1)
				if w.entry > 0 {
					splits = 0
					for p := w.first; p < w.end; p = splitEnd(p) {
						splits++
					}
				}
				for e := w.entry; e < w.entry+splits; e++ {
					if e >= w.total || entries[w.base+e] {
						t.Fatalf("round %d: entry %d of %d written twice or too far", round, e, w.total)
					}
					entries[w.base+e] = true
				}
			}
			if len(entries) > part.entries || part.entries*part.blocks > 2*arrivals || len(works[i]) > part.works {
				t.Fatalf("round %d: %d entries and %d works, planned %d and %d", round, len(entries), len(works[i]), part.entries, part.works)
			}
			for e := range entries {
				if int(e) >= len(entries) {
					t.Fatalf("round %d: entry %d of %d", round, e, len(entries))
				}
			}
		}
		for r := range b.Rows() {
			if seen[int32(r)] != 1 {
				t.Fatalf("round %d: row %d is in %d tiles", round, r, seen[int32(r)])
			}
		}
		for i := range order {
			row := order[i].row
			if b.Slots[row] < 0 {
				continue
			}
			if i > 0 && b.Slots[order[i-1].row] == b.Slots[row] && order[i-1].position > order[i].position {
				t.Fatalf("round %d: positions descend", round)
			}
		}
		for what, n := range pages {
			if n != 1 {
				t.Fatalf("round %d: tile and page %s in %d works", round, what, n)
			}
		}
		for _, list := range works {
			for _, w := range list {
				if w.slot < 0 {
					continue
				}
				first := int32(0)
				if window > 0 {
					first = max(0, order[w.at].position+1-int32(window)) / compute.Page
				}
				for p := first; p <= order[w.at+w.rows-1].position/compute.Page; p++ {
					if pages[fmt.Sprint(w.at, " ", p)] != 1 {
						t.Fatalf("round %d: page %d of the tile at %d is in no work", round, p, w.at)
					}
				}
			}
		}
	}
}

func TestSplitsEndWhereTheKernelsSay(t *testing.T) {
	for _, c := range [][2]int32{{0, 1}, {15, 16}, {16, 20}, {17, 20}, {19, 20}, {127, 128}, {128, 144}, {143, 144}, {144, 160}} {
		if got := splitEnd(c[0]); got != c[1] {
			t.Errorf("the split of page %d ends before page %d, want %d", c[0], got, c[1])
		}
	}
}

func TestAttentionFitsTheSharedMemoryOfHopper(t *testing.T) {
	d := &Device{multiprocessors: 132}
	for _, dim := range headDims {
		for f := range kvFormats {
			for _, form := range d.attendForms(compute.KVShape{HeadDim: dim, Format: f}) {
				const most = 227 << 10 // of a block
				static := 3 << 10      // barriers and small arrays
				if dim > 256 {
					static = 20 << 10 // and queries
				}
				if n := form.shared + static; n > most || form.slots > d.multiprocessors && 2*(n+1<<10) > 228<<10 {
					t.Errorf("%s takes %d bytes", form.kernel, n)
				}
			}
		}
	}
}

// A kernel for few rows fetches pages that were there before the step without waiting. What an earlier batch of the same step has appended was
// not there: rows that are only remembered, before those that attend to them.
func TestPagesThatAnotherBatchOfTheStepWritesAreWaitedFor(t *testing.T) {
	d := openFake(t, newFake())
	m := newToy(t, d, gguf.Q8_0, 64)
	before, b := new(compute.Batch), new(compute.Batch)
	for p := 60; p < 70; p++ {
		before.Add(1, p, 0, false)
	}
	b.Add(1, 130, 0, true)
	for _, c := range []struct {
		name    string
		batches []*compute.Batch
		want    []bool
	}{{"alone", []*compute.Batch{b}, []bool{false, false, true}}, {"after another", []*compute.Batch{before, b}, []bool{true, true, true}}} {
		d.compute(t, func(s *step) compute.Tensor {
			for _, b := range c.batches {
				s.appends(b, m.kv)
			}
			if got := s.written(b, m.kv); !slices.Equal(got, c.want) {
				t.Errorf("%s: pages written in the step: %v, want %v", c.name, got, c.want)
			}
			return compute.Tensor{}
		})
	}
}
