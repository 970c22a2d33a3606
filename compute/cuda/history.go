package cuda

import (
	"cmp"
	"slices"
	"unsafe"

	"memra/compute"
)

// historyInput is a batch's rows by sequence and position on the device, as kernels/delta.cuh says.
type historyInput struct {
	at        pointer
	rows      int
	sequences int
	longest   int     // rows of a sequence, the most
	spare     pointer // states of pages that are not kept; 0: all are
}

// chunkEntry is ChunkEntry of kernels/delta.cuh.
type chunkEntry struct {
	at, rows, position, _ int32
	before, first, next   int32
	_                     int32
}

const chunkInts = int(unsafe.Sizeof(chunkEntry{}) / 4)

func (h *historyInput) part(i int) arg { return (h.at + pointer(4*(chunkInts+i)*h.rows)).arg() }
func (h *historyInput) order() arg     { return h.part(0) }
func (h *historyInput) sequence() arg  { return h.part(1) }
func (h *historyInput) starts() arg    { return h.part(2) }
func (h *historyInput) positions() arg { return h.part(4) }
func (h *historyInput) slots() arg     { return h.part(5) }

// histories sorts a batch, once a step: rows without a sequence stand at the end.
func (s *step) histories(b *compute.Batch, d compute.Delta) *historyInput {
	if in := s.sorted[b]; in != nil {
		return in
	}
	n := b.Rows()
	in, holes := &historyInput{rows: n}, false
	in.at = s.ints((chunkInts+6)*n, func(to []int32) {
		if n == 0 {
			return
		}
		chunks, to := unsafe.Slice((*chunkEntry)(unsafe.Pointer(&to[0])), n), to[chunkInts*n:]
		order, sequence, starts := to[:n], to[n:2*n], to[2*n:2*n]
		for i := range order {
			order[i] = int32(i)
		}
		key := func(r int32) uint64 { return uint64(uint32(b.Slots[r]))<<32 | uint64(b.Positions[r]) } // -1 is the largest
		slices.SortFunc(order, func(x, y int32) int { return cmp.Or(cmp.Compare(key(x), key(y)), cmp.Compare(x, y)) })
		last := int32(-1)
		for i, r := range order {
			slot := b.Slots[r]
			sequence[i] = -1
			if slot != last {
				starts = append(starts, int32(i))
				last = slot
			}
			if slot >= 0 {
				in.sequences = len(starts)
				sequence[i] = int32(len(starts) - 1)
				holes = holes || d.Tables[slot][b.Positions[r]/compute.Page] < 0
			}
		}
		if len(starts) == in.sequences {
			starts = append(starts, int32(n))
		}
		copy(to[4*n:], b.Positions)
		copy(to[5*n:], b.Slots)
		in.longest = fillChunks(chunks, order, sequence, b, d)
	})
	if shape := d.Memory.Shape(); holes {
		in.spare = s.take(&s.arenas[0], in.sequences*shape.ValueHeads*shape.HeadDim*shape.HeadDim*6)
	}
	s.sorted[b] = in
	return in
}

// fillChunks writes an entry of each sequence, then of each row without one, and gives the most rows of a sequence.
func fillChunks(to []chunkEntry, order, sequence []int32, b *compute.Batch, d compute.Delta) (longest int) {
	made := 0
	for i, r := range order {
		switch {
		case sequence[i] < 0:
			to[made] = chunkEntry{at: int32(i)}
		case i > 0 && sequence[i] == sequence[i-1]:
			to[made-1].rows++
			longest = max(longest, int(to[made-1].rows))
			continue
		default:
			table, page := d.Tables[b.Slots[r]], int(b.Positions[r]/compute.Page)
			e := chunkEntry{at: int32(i), rows: 1, position: b.Positions[r], before: -1, first: table[page], next: -1}
			if page > 0 {
				e.before = table[page-1]
			}
			if page+1 < len(table) {
				e.next = table[page+1]
			}
			to[made], longest = e, max(longest, 1)
		}
		made++
	}
	for i := range to[made:] {
		to[made+i] = chunkEntry{at: -1}
	}
	return longest
}
