package cpu

import (
	"math"

	"memra/compute"
)

// attendRows is how many rows of a sequence read a page together, so that it comes from the nearest cache.
const attendRows = 8

// attendScratch is what a thread needs to attend: for each row of a tile and query head, scaled queries, the open split,
// and the total of the closed ones.
type attendScratch struct {
	q, split, total []float32               // [attendRows, heads, HeadDim]
	open, closed    []partial               // [attendRows, heads]
	scores          [][compute.Page]float32 // [heads]
	rescale         []float32               // [heads]
}

func (a *attendScratch) size(heads, dim int) {
	if n := attendRows * heads; len(a.open) < n || len(a.q) < n*dim {
		a.q, a.split, a.total = make([]float32, n*dim), make([]float32, n*dim), make([]float32, n*dim)
		a.open, a.closed = make([]partial, n), make([]partial, n)
		a.scores, a.rescale = make([][compute.Page]float32, heads), make([]float32, heads)
	}
}

// attendTask is the query heads [head, head+heads) of one KV head, for up to eight rows of one sequence.
type attendTask struct {
	*attendScratch
	kernels    *kernels
	memory     *kvMemory
	layer      int
	table      []int32
	kvHead     int
	heads, dim int
	scale      float32
	window     int
}

// Attention is independent work per row and query head; rows of a sequence that stand together share their reading. See
// attend.go for the order of sums.
func (s *step) Attention(b *compute.Batch, q compute.Tensor, kv compute.KV, a compute.Attn) compute.Tensor {
	m := kv.Memory.(*kvMemory)
	dim := m.shape.HeadDim
	out, om := s.tensor(q.Rows, q.Width)
	if a.Scale == 0 {
		a.Scale = float32(1 / math.Sqrt(float64(dim)))
	}
	tiles := rowTiles(b)
	grouped := q.Width / dim / m.shape.Heads // query heads that share a KV head
	heads := grouped
	for heads%2 == 0 && len(tiles)*q.Width/dim/heads < s.pool.threads {
		heads /= 2
	}
	parts := q.Width / dim / heads
	s.pool.run(len(tiles)*parts, func(thread, i int) {
		rows, head := tiles[i/parts], i%parts*heads
		slot := b.Slots[rows[0]]
		if slot < 0 {
			for _, r := range rows {
				clear(om.row(int(r), q.Width)[head*dim:][:heads*dim])
			}
			return
		}
		t := attendTask{attendScratch: &s.scratch[thread], kernels: s.kernels, memory: m, layer: kv.Layer,
			table: kv.Tables[slot], kvHead: head / grouped, heads: heads, dim: dim, scale: a.Scale, window: a.Window}
		t.size(heads, dim)
		t.attend(b, rows, func(r int32) (query, dst []float32) {
			return mem(q).row(int(r), q.Width)[head*dim:][:heads*dim], om.row(int(r), q.Width)[head*dim:][:heads*dim]
		})
	})
	return out
}

// rowTiles cuts the batch into runs of at most eight rows of one sequence.
func rowTiles(b *compute.Batch) [][]int32 {
	var tiles [][]int32
	for r := range b.Slots {
		if last := len(tiles) - 1; last >= 0 && len(tiles[last]) < attendRows && b.Slots[tiles[last][0]] == b.Slots[r] {
			tiles[last] = append(tiles[last], int32(r))
			continue
		}
		tiles = append(tiles, []int32{int32(r)})
	}
	return tiles
}

// attend computes the rows' outputs: pages ascending, for each page the rows that see it.
func (t *attendTask) attend(b *compute.Batch, rows []int32, of func(r int32) (query, dst []float32)) {
	wide := t.heads * t.dim
	first, last := math.MaxInt, 0
	for i, r := range rows {
		query, _ := of(r)
		for j, v := range query {
			t.q[i*wide+j] = v * t.scale
		}
		clear(t.split[i*wide:][:wide])
		clear(t.total[i*wide:][:wide])
		for h := range t.heads {
			t.open[i*t.heads+h].reset()
			t.closed[i*t.heads+h].reset()
		}
		from, to := t.sees(int(b.Positions[r]))
		first, last = min(first, from/compute.Page), max(last, (to-1)/compute.Page)
	}
	for page := first; page <= last; page++ {
		for i, r := range rows {
			from, to := t.sees(int(b.Positions[r]))
			from, to = max(0, from-page*compute.Page), min(compute.Page, to-page*compute.Page)
			if from < to {
				t.page(i, int(t.table[page]), from, to)
			}
		}
		if (page+1)%splitPages == 0 || page == last {
			t.close(len(rows))
		}
	}
	for i, r := range rows {
		_, dst := of(r)
		for h := range t.heads {
			inverse := 1 / t.closed[i*t.heads+h].sums[0]
			for d := range t.dim {
				dst[h*t.dim+d] = t.total[i*wide+h*t.dim+d] * inverse
			}
		}
	}
}

// sees is the positions [from, to) that a row at a position attends.
func (t *attendTask) sees(position int) (from, to int) {
	if t.window > 0 {
		from = max(0, position+1-t.window)
	}
	return from, position + 1
}

// page adds keys [from, to) of a page to row i's open split.
func (t *attendTask) page(i, page, from, to int) {
	wide := t.heads * t.dim
	q, out, open := t.q[i*wide:][:wide], t.split[i*wide:][:wide], t.open[i*t.heads:][:t.heads]
	scores, rescale := t.scores[:t.heads], t.rescale[:t.heads]
	keys, n := t.memory.at(t.layer, page, t.kvHead), t.memory.headLen()
	if m := t.memory; m.full != nil {
		scoresGo(scores, q, m.full[keys:][:n])
	} else {
		t.kernels.scores(scores, q, m.half[keys:][:n])
	}
	for h := range scores {
		for j := range from {
			scores[h][j] = float32(math.Inf(-1))
		}
		for j := to; j < compute.Page; j++ {
			scores[h][j] = float32(math.Inf(-1))
		}
		rescale[h] = t.kernels.softmax(&scores[h], &open[h].peak, &open[h].sums)
	}
	if m := t.memory; m.full != nil {
		valuesGo(out, scores, rescale, m.full[keys+n:][:n], from, to)
	} else {
		t.kernels.values(out, scores, rescale, m.half[keys+n:][:n], from, to)
	}
}

// close merges the rows' open splits into their totals. A split that saw nothing changes nothing.
func (t *attendTask) close(rows int) {
	for i := range rows * t.heads {
		if open := &t.open[i]; open.sums != [16]float32{} {
			out := t.split[i*t.dim:][:t.dim]
			t.closed[i].merge(t.total[i*t.dim:][:t.dim], open, out)
			open.reset()
			clear(out)
		}
	}
}
