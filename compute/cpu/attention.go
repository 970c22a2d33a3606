package cpu

import (
	"math"

	"memra/compute"
)

// attendRows is how many rows of a sequence read a page together, so that it comes from the nearest cache.
const attendRows = 8

// rowRun is up to attendRows rows of one sequence that stand together in a batch: [first, first+rows).
type rowRun struct{ first, rows int }

// rowRuns cuts the batch into runs.
func rowRuns(b *compute.Batch) []rowRun {
	var runs []rowRun
	for r, slot := range b.Slots {
		if last := len(runs) - 1; last >= 0 && runs[last].rows < attendRows && b.Slots[runs[last].first] == slot {
			runs[last].rows++
			continue
		}
		runs = append(runs, rowRun{r, 1})
	}
	return runs
}

// attention is one call of the operation, and how its work is divided.
type attention struct {
	*step
	compute.Attn
	batch   *compute.Batch
	kv      compute.KV
	q, out  *buffer
	width   int // of q and out
	dim     int // of a head
	grouped int // query heads that share a KV head
	heads   int // query heads of a piece
	pieces  []attendPiece
}

// attendPiece is a run and query heads [head, head+heads): over all splits, or over one of them, which it leaves open.
type attendPiece struct {
	run   rowRun
	head  int
	split int // allSplits: all
	open  accumulator
}

const allSplits = -1

// Attention is independent work per row and query head; rows of a sequence that stand together share their reading. Where
// there are few of them, the splits are shared out too. See attend.go for the order of sums, which this does not change.
func (s *step) Attention(b *compute.Batch, q compute.Tensor, kv compute.KV, a compute.Attn) compute.Tensor {
	shape := kv.Memory.Shape()
	if a.Scale == 0 {
		a.Scale = float32(1 / math.Sqrt(float64(shape.HeadDim)))
	}
	result, out := s.tensor(q.Rows, q.Width)
	w := attention{step: s, Attn: a, batch: b, kv: kv, q: s.ready(q), out: out, width: q.Width, dim: shape.HeadDim,
		grouped: q.Width / shape.HeadDim / shape.Heads}
	w.divide()
	s.run(len(w.pieces), func(thread, i int) { w.piece(thread, &w.pieces[i]) })
	w.merge()
	if !a.Gate.IsZero() {
		s.openGates(out, a.Gate, shape.HeadDim)
	}
	return result
}

// divide cuts the work into pieces: a run and a KV head, all splits. Where those are too few to keep the threads even, each
// split is a piece; where they are still fewer than threads, query heads that share a KV head part.
func (w *attention) divide() {
	const even = 4 // pieces a thread
	runs, all := rowRuns(w.batch), w.width/w.dim
	count, bySplit := len(runs)*all/w.grouped, false
	if count < even*w.pool.threads {
		count, bySplit = 0, true
		for _, run := range runs {
			first, last := w.splits(run)
			count += (last - first + 1) * all / w.grouped
		}
	}
	for w.heads = w.grouped; w.heads%2 == 0 && count < w.pool.threads; w.heads /= 2 {
		count *= 2
	}
	w.pieces = sized(w.step.pieces, count) // with the memory of those before
	w.step.pieces = w.pieces
	left := w.pieces
	for _, run := range runs {
		for head := 0; head < all; head += w.heads {
			first, last := allSplits, allSplits
			if bySplit {
				first, last = w.splits(run)
			}
			for split := first; split <= last; split++ {
				left[0].run, left[0].head, left[0].split = run, head, split
				left = left[1:]
			}
		}
	}
}

// splits are the splits [first, last] that a run sees.
func (w *attention) splits(run rowRun) (first, last int) {
	const positions = splitPages * compute.Page
	first = math.MaxInt
	for _, p := range w.batch.Positions[run.first:][:run.rows] {
		from, to := sees(int(p), w.Window)
		first, last = min(first, from/positions), max(last, (to-1)/positions)
	}
	return first, last
}

// piece computes a piece.
func (w *attention) piece(thread int, p *attendPiece) {
	if w.batch.Slots[p.run.first] < 0 {
		for r := range p.run.rows {
			clear(w.out.row(p.run.first+r, w.width)[p.head*w.dim:][:w.heads*w.dim])
		}
		return
	}
	t := attendTask{attendScratch: &w.scratch[thread], kernels: w.kernels, memory: w.kv.Memory.(*kvMemory), layer: w.kv.Layer,
		table: w.kv.Tables[w.batch.Slots[p.run.first]], kvHead: p.head / w.grouped, heads: w.heads, dim: w.dim,
		positions: w.batch.Positions[p.run.first:][:p.run.rows], window: w.Window, cap: w.Cap}
	t.size(p.run.rows*w.heads, w.dim)
	for r := range p.run.rows {
		query := w.q.row(p.run.first+r, w.width)[p.head*w.dim:][:w.heads*w.dim]
		for i, v := range query {
			t.q[r*len(query)+i] = v * w.Attn.Scale
		}
	}
	if p.split != allSplits {
		p.open.reset(p.run.rows*w.heads, w.dim)
		t.attend(p.split, &p.open)
		return
	}
	t.total.reset(p.run.rows*w.heads, w.dim)
	first, last := w.splits(p.run)
	for split := first; split <= last; split++ {
		t.split.reset(p.run.rows*w.heads, w.dim)
		t.attend(split, &t.split)
		t.total.merge(&t.split)
	}
	w.store(p, &t.total)
}

// merge closes the splits that pieces left open, ascending.
func (w *attention) merge() {
	total := &w.scratch[0].total
	for i := range w.pieces {
		p := &w.pieces[i]
		if p.split == allSplits || w.batch.Slots[p.run.first] < 0 {
			continue
		}
		if i == 0 || w.pieces[i-1].run != p.run || w.pieces[i-1].head != p.head {
			total.reset(p.run.rows*w.heads, w.dim)
		}
		total.merge(&p.open)
		if i+1 == len(w.pieces) || w.pieces[i+1].run != p.run || w.pieces[i+1].head != p.head {
			w.store(p, total)
		}
	}
}

// store divides the totals of a piece's vectors by their sums, sinks among them.
func (w *attention) store(p *attendPiece, total *accumulator) {
	for i := range total.parts {
		r, h := i/w.heads, i%w.heads
		sink := noSink
		if !w.Sinks.IsZero() {
			sink = values(w.Sinks)[p.head+h]
		}
		dst, inverse := w.out.row(p.run.first+r, w.width)[(p.head+h)*w.dim:][:w.dim], total.parts[i].close(sink)
		for d, v := range total.out[i*w.dim:][:w.dim] {
			dst[d] = v * inverse
		}
	}
}
