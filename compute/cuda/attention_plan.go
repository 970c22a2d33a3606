package cuda

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"memra/compute"
)

// A step's attention is cut into work on the host, which knows all positions: rows next to each other in a sequence form tiles, a
// sequence with few rows goes to one kernel and one with many to the other, and a tile's pages are cut at the borders of splits so
// that every multiprocessor has its share. Nothing of this changes a bit of a row. kernels/attend.cuh shows how the pieces fit.
//
// What a launch is given depends on roundings of the plan's size only, so a graph is replayed at any depth until one of them grows.

// attendForm is a kernel as the plan sees it.
type attendForm struct {
	kernel  string
	pairs   int // (row, query head) pairs of a tile
	heads   int // of a KV head's group in a block, at most
	least   int // pages that are worth a work of their own
	slots   int // blocks that the GPU runs at once
	program int // those of them that a program would run; 0: none has this kernel
	begin   int // time before a work's first page, to meet the other works of a tile, and to merge an entry, in makespan's unit
	meet    int
	merge   int
	block   int
	shared  int
}

// attendPlan is the attention of one batch over one table.
type attendPlan struct {
	order pointer // [rows]{row, position}, sequences together, positions ascending
	parts [2]attendPart
}

// attendPart is one kernel's part of a plan.
type attendPart struct {
	attendForm
	at             pointer // [works]attendWork
	works, entries int     // works rounded up: launches of different depths are alike
	blocks         int     // a work
}

// attendWork is Work of kernels/attend.cuh.
type attendWork struct {
	slot, at, rows     int32
	first, end         int32 // pages
	fresh              int32 // of few: the first page that this step writes
	base, entry, total int32 // of partial results
	begin              int32 // of the sequence's rows in the order
	_                  [2]int32
}

// rowAt is a row of a batch and its position.
type rowAt struct{ row, position int32 }

// attendKey tells plans of a step apart.
type attendKey struct {
	batch  *compute.Batch
	tables *[]int32
	shape  compute.KVShape
	group  int
	window int
}

// arrivals is how many counters of finished works a KV memory has: more than any plan for today's GPUs needs.
const arrivals = 1 << 16

// fewPairs is up to how many pairs a sequence's rows go to the kernel for few.
const fewPairs = 64

// attendForms are the kernels for a KV memory: for few rows, for many.
func (d *Device) attendForms(kv compute.KVShape) [2]attendForm {
	dim := kv.HeadDim
	name := fmt.Sprintf("%d_%s", dim, kvFormats[kv.Format])
	few := attendForm{kernel: "attend_few_" + name, pairs: 16, heads: 16, least: 1, slots: 2 * d.multiprocessors, begin: 32, meet: 40, merge: 1,
		block: 192, shared: 96 << 10}
	many := attendForm{kernel: "attend_many_" + name, pairs: 128, heads: 128, least: 32, slots: d.multiprocessors, begin: 16, merge: 8, block: 384}
	if dim > 128 {
		many.pairs, many.heads = 64, 64
		many.shared = many.pairs * dim * 2 // the queries
	}
	if kv.Format == compute.KVF16 && slices.Contains(programDims, dim) {
		few.program = d.multiprocessors
	}
	tile := compute.Page * dim * 2 // bytes of a page's keys in f16; Rings of attend_many.cu
	switch {
	case dim > 256: // outputs of 64 pairs do not fit a warpgroup's registers: many rows are a few at a time, a block to a multiprocessor
		few.slots, few.shared = d.multiprocessors, 192<<10
		many = attendForm{heads: 1} // of no pairs
	case kv.Format == compute.KVF16:
		many.shared += min(192<<10/tile, 8) * tile
	case dim > 128:
		many.shared += 4*tile + 3*compute.Page*kv.Format.RowBytes(dim)
	default:
		many.shared += 6*tile + 3*compute.Page*kv.Format.RowBytes(dim)
	}
	return [2]attendForm{few, many}
}

// attentionPlan makes a plan and sends it, once a step.
func (s *step) attentionPlan(b *compute.Batch, kv compute.KV, group, window int) *attendPlan {
	m := kv.Memory.(*kvMemory)
	key := attendKey{b, unsafe.SliceData(kv.Tables), m.shape, group, window}
	if p := s.plans[key]; p != nil {
		return p
	}
	p := new(attendPlan)
	s.plans[key] = p
	order, works := planAttention(b, kv.Tables, s.written(b, kv), m.shape.Heads, group, window, s.attendForms(m.shape), &p.parts)
	p.order = sendSlice(s, order, len(order))
	for i := range p.parts {
		if len(works[i]) > 0 {
			p.parts[i].at = sendSlice(s, works[i], p.parts[i].works)
		}
	}
	return p
}

// sendSlice sends values, and zeros up to n of them.
func sendSlice[T any](s *step, values []T, n int) pointer {
	size := int(unsafe.Sizeof(*new(T)))
	host, at, err := s.inputs.take(s.Device, n*size)
	if err != nil {
		s.fail(err)
		return 0
	}
	if n > 0 {
		to := unsafe.Slice((*T)(unsafe.Pointer(&host[0])), n)
		clear(to[copy(to, values):])
	}
	return at
}

// planAttention cuts a batch, in a step that has written some pages before; it fills in parts but for addresses.
func planAttention(b *compute.Batch, tables [][]int32, written pageSet, kvHeads, group, window int, forms [2]attendForm, parts *[2]attendPart) ([]rowAt, [2][]attendWork) {
	order := make([]rowAt, b.Rows())
	for r := range order {
		order[r] = rowAt{int32(r), b.Positions[r]}
	}
	byPlace := func(x, y rowAt) int {
		return cmp.Or(cmp.Compare(b.Slots[x.row], b.Slots[y.row]), cmp.Compare(x.position, y.position))
	}
	if !slices.IsSortedFunc(order, byPlace) {
		slices.SortStableFunc(order, byPlace)
	}
	var tiles [2][]attendWork
	for at := 0; at < len(order); {
		slot := b.Slots[order[at].row]
		end := at + 1
		for end < len(order) && b.Slots[order[end].row] == slot {
			end++
		}
		form, rows := 0, 64 // rows of a tile; of zeros any number will do
		if slot >= 0 {
			if (end-at)*group > fewPairs && group <= forms[1].pairs {
				form = 1
			}
			rows = max(1, forms[form].pairs/group)
		}
		begin := int32(at)
		for ; at < end; at += rows {
			w := attendWork{slot: slot, at: int32(at), rows: int32(min(rows, end-at)), begin: begin}
			if slot >= 0 {
				if window > 0 {
					w.first = max(0, order[at].position+1-int32(window)) / compute.Page
				}
				w.end = order[at+int(w.rows)-1].position/compute.Page + 1
				w.fresh = w.first
				for form == 0 && w.fresh < w.end && !written.has(tables[slot][w.fresh]) {
					w.fresh++
				}
			}
			tiles[form] = append(tiles[form], w)
		}
		at = end
	}
	for i, f := range forms {
		p := &parts[i]
		*p = attendPart{attendForm: f, blocks: kvHeads * ceilDiv(group, f.heads)}
		if len(tiles[i]) == 0 {
			continue
		}
		works, entries := bestCut(tiles[i], p.blocks, f)
		p.works, p.entries = max(8, powerOfTwo(len(works))), entries
		tiles[i] = works
	}
	return order, tiles
}

// pageSet is a set of pages, by number.
type pageSet []bool

func (s pageSet) has(page int32) bool { return int(page) < len(s) && s[page] }

// add adds the pages that a batch appends to.
func (s *pageSet) add(b *compute.Batch, tables [][]int32) {
	for r, slot := range b.Slots {
		if slot >= 0 {
			page := int(tables[slot][b.Positions[r]/compute.Page])
			if page >= len(*s) {
				*s = append(*s, make(pageSet, page+1-len(*s))...)
			}
			(*s)[page] = true
		}
	}
}

// appended is rows that a step has appended to a memory.
type appended struct {
	memory *kvMemory
	batch  *compute.Batch
	tables [][]int32
}

// appends notes what a step appends, once for all layers.
func (s *step) appends(b *compute.Batch, kv compute.KV) {
	m := kv.Memory.(*kvMemory)
	if !slices.ContainsFunc(s.appended, func(a appended) bool { return a.memory == m && a.batch == b }) {
		s.appended = append(s.appended, appended{m, b, kv.Tables})
	}
}

// written are the pages of a memory that a batch appends to, and others of the same step before it: whoever reads them must wait.
func (s *step) written(b *compute.Batch, kv compute.KV) (pages pageSet) {
	pages.add(b, kv.Tables)
	for _, a := range s.appended {
		if a.memory == kv.Memory && a.batch != b {
			pages.add(a.batch, a.tables)
		}
	}
	return pages
}

// bestCut cuts tiles so that the last block ends early: it tries shares around an even one.
func bestCut(tiles []attendWork, blocks int, f attendForm) (best []attendWork, bestEntries int) {
	pages := 0
	for _, w := range tiles {
		pages += int(w.end - w.first)
	}
	slots := f.slots
	if f.program > 0 && pages*blocks <= programPages*f.program { // a step that repeats may be a program
		slots = f.program
	}
	even := ceilDiv(pages*blocks, slots)
	least := -1
	for _, sixteenths := range []int{16, 17, 18, 20, 24, 32, 8, 4, 1 << 20} { // the last cuts nothing
		share := max(f.least, ceilDiv(even*sixteenths, 16))
		works, entries := cutTiles(tiles, share)
		if entries*blocks > arrivals {
			continue
		}
		slices.SortStableFunc(works, func(x, y attendWork) int { return cmp.Compare(y.end-y.first, x.end-x.first) })
		if t := makespan(works, max(1, slots/blocks), f); least < 0 || t < least {
			best, bestEntries, least = works, entries, t
		}
		if least < even*pageTime*9/8 {
			break
		}
	}
	return best, bestEntries
}

// pageTime is the unit of makespan: a page takes 16.
const pageTime = 16

// makespan is about when the last of works ends, if each begins as soon as one of n places is free.
func makespan(works []attendWork, n int, f attendForm) int {
	ends := make([]int, min(n, len(works))) // a heap: ends[i] <= ends[2i+1], ends[2i+2]
	last := 0
	for _, w := range works {
		end := ends[0] + f.begin + pageTime*int(w.end-w.first)
		if w.total > 1 {
			end += f.meet + f.merge*int(w.total-1)
		}
		last = max(last, end)
		i := 0
		for {
			c := 2*i + 1
			if c+1 < len(ends) && ends[c+1] < ends[c] {
				c++
			}
			if c >= len(ends) || ends[c] >= end {
				break
			}
			ends[i] = ends[c]
			i = c
		}
		ends[i] = end
	}
	return last
}

// cutTiles cuts tiles at ends of splits into works of about `share` pages, and numbers their entries.
func cutTiles(tiles []attendWork, share int) (works []attendWork, entries int) {
	for _, tile := range tiles {
		first := len(works)
		w := tile
		w.total = 1
		splits := int32(0) // of w
		for p := tile.first; p < tile.end; {
			next := min(splitEnd(p), tile.end)
			if splits > 0 && int(next-w.first) > share { // w ends at p
				if len(works) == first { // it merges its own splits
					splits = 1
				}
				w.end = p
				works = append(works, w)
				w.first, w.end, w.entry, splits = p, tile.end, w.entry+splits, 0
			}
			splits++
			p = next
		}
		works = append(works, w)
		if n := len(works) - first; n > 1 {
			total := w.entry + splits
			for i := range works[first:] {
				works[first+i].base, works[first+i].total = int32(entries), total
			}
			entries += int(total)
		}
	}
	return works, entries
}

// splitEnd is the page after the split of page p; kernels/pages.cuh says which they are.
func splitEnd(p int32) int32 {
	switch {
	case p < 16:
		return p + 1
	case p < 128:
		return p | 3 + 1
	}
	return p | 15 + 1
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
