package cpu

import (
	"math"

	"memra/compute"
	"memra/internal/exact"
)

// The gated delta rule over one page, for one value head. With S as the page began, row t's
//
//	y[c] = sum_d k[t][d]*S[d][c]               d ascending
//	x[c] = v[t][c] - e[t]*y[c]                 e[t] = exp(G[t])
//	x[c] = x[c] + (-w[t][j])*u[j][c]           j < t ascending, w[t][j] = (k[j].k[t]) * exp(G[t]-G[j]), its dot product d ascending
//	u[t][c] = b[t]*x[c]
//	o[c] = e[t] * sum_d q[t][d]*S[d][c]        d ascending
//	o[c] = o[c] + z[t][j]*u[j][c]              j <= t ascending, z[t][j] = (k[j].q[t]) * exp(G[t]-G[j])
//
// and the next page's S[d][c] = e[63]*S[d][c], then + (k[j][d]*exp(G[63]-G[j]))*u[j][c], j ascending. Every sum begins with the first
// term that stands here or with zero and takes one rounded product after another, so that any blocking of rows gives the same bits:
// rows that a step has together share their reading of S and of earlier rows.

// deltaBlock is how many rows multiply earlier rows together; within a block, each row waits for the one before.
const deltaBlock = 16

// GatedDelta is independent work per sequence and value head.
func (s *step) GatedDelta(b *compute.Batch, d compute.Delta, x, beta, alpha compute.Tensor, g compute.DeltaGates) compute.Tensor {
	shape := d.Memory.Shape()
	w := deltaRule{step: s, DeltaGates: g, DeltaShape: shape, x: s.ready(x), width: x.Width}
	y, out := s.tensor(x.Rows, shape.ValueHeads*shape.HeadDim)
	clearPadding(b, out, y.Width)
	w.out, w.outWidth = out, y.Width
	w.prepare(x.Rows, s.ready(beta), s.ready(alpha))
	all := s.histories(b, d)
	keys := make([][][]float32, len(all)) // of each sequence and page
	for i := range all {
		keys[i] = w.keysOf(&all[i])
	}
	s.run(len(all)*shape.KeyHeads, func(_, i int) {
		w.keepKeys(&all[i/shape.KeyHeads], keys[i/shape.KeyHeads], i%shape.KeyHeads)
	})
	s.run(len(all)*shape.ValueHeads, func(thread, i int) {
		h := &all[i/shape.ValueHeads]
		w.head(&s.deltas[thread], h, keys[i/shape.ValueHeads], i%shape.ValueHeads)
	})
	return y
}

// deltaRule is one call of the operation.
type deltaRule struct {
	*step
	compute.DeltaGates
	compute.DeltaShape
	x, out          *buffer
	width, outWidth int
	qk              *buffer   // normalised queries and keys, [rows, 2*KeyHeads*HeadDim]
	b, g            []float32 // [rows, ValueHeads]
}

// prepare normalises queries and keys, and computes the gates: decays in float64, rounded once.
func (w *deltaRule) prepare(rows int, beta, alpha *buffer) {
	n, dim := 2*w.KeyHeads*w.HeadDim, w.HeadDim
	_, w.qk = w.tensor(rows, n)
	_, gates := w.tensor(2*rows, w.ValueHeads)
	w.b, w.g = gates.rows[:rows*w.ValueHeads], gates.rows[rows*w.ValueHeads:]
	ones, scale := make([]float32, dim), make([]float32, dim)
	for i := range ones {
		ones[i], scale[i] = 1, float32(1/math.Sqrt(float64(dim)))
	}
	a, dt := values(w.A), values(w.DT)
	w.eachDearRow(rows, func(r int) {
		dst, src := w.qk.row(r, n), w.x.row(r, w.width)
		for at := 0; at < n; at += dim {
			gain := scale
			if at >= n/2 {
				gain = ones
			}
			in := src[at:][:dim]
			w.kernels.scale(dst[at:][:dim], in, gain, normScale(w.kernels.sumSquares(in), 1, w.Eps))
		}
		for h := range w.ValueHeads {
			w.b[r*w.ValueHeads+h] = 1 / (1 + exp(-beta.row(r, w.ValueHeads)[h]))
			w.g[r*w.ValueHeads+h] = float32(float64(a[h]) * softplus(float64(alpha.row(r, w.ValueHeads)[h]+dt[h])))
		}
	})
}

// softplus is ln(1 + e^x).
func softplus(x float64) float64 {
	switch {
	case x > 40:
		return x
	case x < -40:
		return exact.Exp(x)
	}
	return exact.Log(1 + exact.Exp(x))
}

// key is the normalised key of a row and a key head; query its query.
func (w *deltaRule) key(row, head int) []float32 {
	return w.qk.row(row, 2*w.KeyHeads*w.HeadDim)[(w.KeyHeads+head)*w.HeadDim:][:w.HeadDim]
}

func (w *deltaRule) query(row, head int) []float32 {
	return w.qk.row(row, 2*w.KeyHeads*w.HeadDim)[head*w.HeadDim:][:w.HeadDim]
}

// keysOf is where the keys of a sequence's pages lie: in the pages, or beside where a page is not kept.
func (w *deltaRule) keysOf(h *history) [][]float32 {
	keys := make([][]float32, len(h.pages))
	for i, p := range h.pages {
		if p != nil {
			keys[i] = p.k
		} else {
			keys[i] = w.at.rows.take(w.KeyHeads*w.HeadDim*compute.Page, 1<<16)
		}
	}
	return keys
}

// keepKeys stores the rows' keys of one head, transposed.
func (w *deltaRule) keepKeys(h *history, keys [][]float32, head int) {
	for i, row := range h.rows {
		page, place := h.place(i)
		dst := keys[page][head*w.HeadDim*compute.Page:]
		for d, v := range w.key(row, head) {
			dst[d*compute.Page+place] = v
		}
	}
}

// deltaScratch is what a thread needs for a value head.
type deltaScratch struct {
	s, u, g []float32 // of a page that is not kept
	rows    []float32 // keys, then queries of the rows of a page, [2*64, HeadDim]
	seen    []float32 // what they read from S
	dots    []float32 // what they have with the page's keys, [2*64, 64]
	keys    []float32 // decayed, [HeadDim, 64]
	e       [compute.Page]float32
}

func (t *deltaScratch) size(dim int) {
	t.s, t.u, t.g = sized(t.s, dim*dim), sized(t.u, compute.Page*dim), sized(t.g, compute.Page)
	t.rows, t.seen = sized(t.rows, 2*compute.Page*dim), sized(t.seen, 2*compute.Page*dim)
	t.dots, t.keys = sized(t.dots, 2*compute.Page*compute.Page), sized(t.keys, compute.Page*dim)
}

// headPage is a page as a value head sees it.
type headPage struct{ s, k, u, g []float32 }

// of is a page, or scratch in its place.
func (w *deltaRule) of(t *deltaScratch, p *deltaPage, keys []float32, head int) headPage {
	d, n := w.HeadDim, compute.Page
	k := keys[w.keyHead(head)*d*n:][:d*n]
	if p == nil {
		return headPage{t.s, k, t.u, t.g}
	}
	return headPage{p.s[head*d*d:][:d*d], k, p.u[head*n*d:][:n*d], p.g[head*n:][:n]}
}

func (w *deltaRule) keyHead(head int) int {
	if w.Grouped {
		return head / (w.ValueHeads / w.KeyHeads)
	}
	return head % w.KeyHeads
}

// head computes a sequence's rows for one value head, page by page.
func (w *deltaRule) head(t *deltaScratch, h *history, keys [][]float32, head int) {
	t.size(w.HeadDim)
	var last headPage
	if h.past != nil {
		last = w.of(t, h.past, h.past.k, head)
	}
	for i, end := 0, 0; i < len(h.rows); i = end {
		n, place := h.place(i)
		end = min(len(h.rows), i+compute.Page-place)
		page := w.of(t, h.pages[n], keys[n], head)
		switch {
		case place > 0:
		case last.s != nil:
			w.advance(t, page.s, &last)
		default: // the sequence begins
			clear(page.s)
		}
		w.page(t, &page, h.rows[i:end], place, head)
		last = page
	}
}

// page computes rows that stand at a page's places from one on.
func (w *deltaRule) page(t *deltaScratch, p *headPage, rows []int, first, head int) {
	dim, n, key := w.HeadDim, len(rows), w.keyHead(head)
	for i, r := range rows {
		copy(t.rows[i*dim:][:dim], w.key(r, key))
		copy(t.rows[(n+i)*dim:][:dim], w.query(r, key))
		var before float32
		if first+i > 0 {
			before = p.g[first+i-1]
		}
		p.g[first+i] = before + w.g[r*w.ValueHeads+head]
		t.e[i] = exp(p.g[first+i])
	}
	seen, dots := t.seen[:2*n*dim], t.dots[:2*n*compute.Page]
	clear(seen)
	clear(dots)
	columns := (first + n + 15) / 16 * 16
	w.kernels.addMatrix(seen, dim, t.rows, dim, p.s, dim, 2*n, dim, dim)
	w.kernels.addMatrix(dots, compute.Page, t.rows, dim, p.k, compute.Page, 2*n, dim, columns)
	for i := range n {
		top := p.g[first+i]
		for _, row := range [][]float32{dots[i*compute.Page:][:columns], dots[(n+i)*compute.Page:][:columns]} {
			w.kernels.decay(row, row, p.g[:columns], top)
		}
	}
	negate(dots[:n*compute.Page])
	w.learn(t, p, rows, first, head)
	w.answer(t, p, rows, first, head)
}

// learn computes u of the rows, block by block.
func (w *deltaRule) learn(t *deltaScratch, p *headPage, rows []int, first, head int) {
	dim, values := w.HeadDim, (2*w.KeyHeads+head)*w.HeadDim
	for i, r := range rows {
		u, v := p.u[(first+i)*dim:][:dim], w.x.row(r, w.width)[values:]
		for c, y := range t.seen[i*dim:][:dim] {
			u[c] = v[c] - float32(t.e[i]*y)
		}
	}
	for from := 0; from < len(rows); from += deltaBlock {
		n, earlier := min(deltaBlock, len(rows)-from), first+from
		w.kernels.addMatrix(p.u[earlier*dim:], dim, t.dots[from*compute.Page:], compute.Page, p.u, dim, n, earlier, dim)
		for i := from; i < from+n; i++ {
			u := p.u[(first+i)*dim:][:dim]
			w.kernels.addMatrix(u, dim, t.dots[i*compute.Page+earlier:], compute.Page, p.u[earlier*dim:], dim, 1, i-from, dim)
			b := w.b[rows[i]*w.ValueHeads+head]
			for c := range u {
				u[c] *= b
			}
		}
	}
}

// answer computes o of the rows.
func (w *deltaRule) answer(t *deltaScratch, p *headPage, rows []int, first, head int) {
	dim, all := w.HeadDim, len(rows)
	o, dots := t.seen[all*dim:], t.dots[all*compute.Page:]
	for i := range rows {
		e := t.e[i]
		for c, y := range o[i*dim:][:dim] {
			o[i*dim+c] = e * y
		}
	}
	for from := 0; from < all; from += deltaBlock {
		n, earlier := min(deltaBlock, all-from), first+from
		w.kernels.addMatrix(o[from*dim:], dim, dots[from*compute.Page:], compute.Page, p.u, dim, n, earlier, dim)
		for i := from; i < from+n; i++ {
			w.kernels.addMatrix(o[i*dim:], dim, dots[i*compute.Page+earlier:], compute.Page, p.u[earlier*dim:], dim, 1, i-from+1, dim)
			copy(w.out.row(rows[i], w.outWidth)[head*dim:][:dim], o[i*dim:])
		}
	}
}

// advance computes the state that a page ends with. to may be the page's own.
func (w *deltaRule) advance(t *deltaScratch, to []float32, p *headPage) {
	dim, top := w.HeadDim, p.g[compute.Page-1]
	e := exp(top)
	for i, v := range p.s {
		to[i] = e * v
	}
	for d := range dim {
		w.kernels.decay(t.keys[d*compute.Page:][:compute.Page], p.k[d*compute.Page:][:compute.Page], p.g, top)
	}
	w.kernels.addMatrix(to, dim, t.keys, compute.Page, p.u, dim, dim, compute.Page, dim)
}

// negate changes signs.
func negate(x []float32) {
	for i, v := range x {
		x[i] = -v
	}
}

// decayGo is y[j] = x[j] * exp(top - g[j]).
func decayGo(y, x, g []float32, top float32) {
	for j, v := range g {
		y[j] = x[j] * exp(top-v)
	}
}

// addMatrixGo is y[i][c] = y[i][c] + a[i][k]*b[k][c], k ascending, for so many rows i, so large a depth, and so wide c, a multiple of 16.
// Rows of y, a and b lie ly, la and lb values apart.
func addMatrixGo(y []float32, ly int, a []float32, la int, b []float32, lb, rows, depth, width int) {
	for i := range rows {
		out := y[i*ly:][:width]
		for k := range depth {
			factor := a[i*la+k]
			for c, v := range b[k*lb:][:width] {
				out[c] += float32(factor * v)
			}
		}
	}
}
