package cpu

import (
	"math"

	"memra/compute"
)

// attendScratch is what a thread needs to attend.
type attendScratch struct {
	q            []float32               // scaled queries, [vectors, HeadDim]
	scores       [][compute.Page]float32 // [vectors]
	rescale      []float32               // [vectors]
	split, total accumulator
	wide         []full // a page's keys, then its values
}

// widenFrom is how many query vectors make it worth to convert a page of halves once, and not at each kernel call.
const widenFrom = 12

func (a *attendScratch) size(vectors, dim int) {
	a.q = sized(a.q, vectors*dim)
	a.scores, a.rescale = sized(a.scores, vectors), sized(a.rescale, vectors)
}

// sized is s with n values, of any content.
func sized[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n)
	}
	return s[:n]
}

// accumulator is the attention of some query vectors over part of their positions.
type accumulator struct {
	parts []partial
	out   []float32 // [vectors, HeadDim]
}

func (a *accumulator) reset(vectors, dim int) {
	a.parts, a.out = sized(a.parts, vectors), sized(a.out, vectors*dim)
	for i := range a.parts {
		a.parts[i].reset()
	}
	clear(a.out)
}

// merge adds a split to a total, vector by vector. A split that saw nothing changes nothing.
func (a *accumulator) merge(split *accumulator) {
	dim := len(a.out) / len(a.parts)
	for i := range a.parts {
		if p := &split.parts[i]; p.sums != [16]float32{} {
			a.parts[i].merge(a.out[i*dim:][:dim], p, split.out[i*dim:][:dim])
		}
	}
}

// attendTask is some query heads that share a KV head, for a run of rows of one sequence. Their query vectors are in the order
// [row, head].
type attendTask struct {
	*attendScratch
	kernels    *kernels
	memory     *kvMemory
	layer      int
	table      []int32 // pages of the sequence
	kvHead     int
	heads, dim int
	positions  []int32 // of the rows
	window     int
	cap        float32
}

// sees is the positions [from, to) that a row at a position attends.
func sees(position, window int) (from, to int) {
	if window > 0 {
		from = max(0, position+1-window)
	}
	return from, position + 1
}

// keys is the keys [from, to) of a page that row i sees, none where from >= to.
func (t *attendTask) keys(i, page int) (from, to int) {
	from, to = sees(int(t.positions[i]), t.window)
	return max(0, from-page*compute.Page), min(compute.Page, to-page*compute.Page)
}

// attend adds a split to an accumulator: pages ascending, for each the rows that see it.
func (t *attendTask) attend(split int, to *accumulator) {
	for page := split * splitPages; page < (split+1)*splitPages; page++ {
		first, end := len(t.positions), 0
		for i := range t.positions {
			if from, to := t.keys(i, page); from < to {
				first, end = min(first, i), i+1
			}
		}
		if first < end {
			t.page(page, first, end, to)
		}
	}
}

// page adds a page to rows [first, end). Their scores are computed together, the values of those that see the same keys too:
// a value that a row does not see is not multiplied by zero, as it may be NaN.
func (t *attendTask) page(page, first, end int, to *accumulator) {
	m, n := t.memory, t.memory.headLen()
	at := m.at(t.layer, int(t.table[page]), t.kvHead)
	var short []half // the keys, then the values: one of the two
	var wide []full
	switch {
	case m.full != nil:
		wide = m.full[at:][:2*n]
	case (end-first)*t.heads >= widenFrom:
		t.wide = sized(t.wide, 2*n)
		wide = t.wide
		t.kernels.widen(wide, m.half[at:][:2*n])
	default:
		short = m.half[at:][:2*n]
	}
	scores, q := t.scores[first*t.heads:end*t.heads], t.q[first*t.heads*t.dim:end*t.heads*t.dim]
	if wide != nil {
		t.kernels.scoresFull(scores, q, wide[:n])
	} else {
		t.kernels.scores(scores, q, short[:n])
	}
	for i := first; i < end; {
		from, until := t.keys(i, page)
		begin := i * t.heads
		for i++; i < end; i++ {
			if f, u := t.keys(i, page); f != from || u != until {
				break
			}
		}
		if from >= until {
			continue
		}
		vectors := i * t.heads
		for v := begin; v < vectors; v++ {
			if t.cap > 0 {
				t.kernels.bend(t.scores[v][:], t.scores[v][:], t.cap)
			}
			hide(&t.scores[v], from, until)
			t.rescale[v] = t.kernels.softmax(&t.scores[v], &to.parts[v].peak, &to.parts[v].sums)
		}
		out, p, rescale := to.out[begin*t.dim:vectors*t.dim], t.scores[begin:vectors], t.rescale[begin:vectors]
		if wide != nil {
			t.kernels.valuesFull(out, p, rescale, wide[n:], from, until)
		} else {
			t.kernels.values(out, p, rescale, short[n:], from, until)
		}
	}
}

// hide makes the scores outside [from, to) minus infinity, whatever stood there.
func hide(scores *[compute.Page]float32, from, to int) {
	copy(scores[:from], outOfSight[:])
	copy(scores[to:], outOfSight[:])
}

var outOfSight = func() (s [compute.Page]float32) {
	for i := range s {
		s[i] = float32(math.Inf(-1))
	}
	return s
}()
