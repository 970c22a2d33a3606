package cpu

import "memra/compute"

// MatMul quantises the rows once, whoever asks, and leaves the rest for later. See dot.go for the order of sums.
func (s *step) MatMul(x compute.Tensor, w compute.Weight) compute.Tensor {
	p := w.Mem.(*packed)
	y, out := s.tensor(x.Rows, p.n)
	if x.Rows == 0 { // no row asked for logits
		return y
	}
	in := s.ready(x)
	if !p.layout.float {
		s.quantize(in, x.Rows, x.Width)
	}
	s.later(product{in: in, out: out, w: p, rows: x.Rows, bias: w.Bias})
	return y
}

// tileScratch is what a thread hands to its kernels: a tile of rows, and room for outputs that do not fill a group.
type tileScratch struct {
	rowTile
	last [panelRows * group]float32
}

// multiply gives the products of rows, so many from one on, which begins a panel, with outputs [16*from, 16*to). Each has its place in y.
func (s *step) multiply(thread int, y []float32, in *buffer, p *packed, first, rows, from, to int) {
	t, blocks := &s.tiles[thread], p.k/blockLen
	for end := first + rows; first < end; first += panelRows {
		t.rowTile = rowTile{k: p.k}
		if p.layout.float {
			t.float = in.rows[first*p.k:]
		} else {
			t.panel = in.panels[first/panelRows*blocks:][:blocks]
		}
		s.panel(y[first*p.n:], p, t, min(panelRows, end-first), from, to)
	}
}

// panel multiplies outputs [16*from, 16*to) by up to eight rows.
func (s *step) panel(y []float32, p *packed, t *tileScratch, rows, from, to int) {
	x, all := t.float, s.kernels.dot[p.layout]
	for g := from; g < to; g++ {
		tiles := all
		for r := 0; r < rows; r += t.rows {
			for tiles[0].rows > rows-r && len(tiles) > 1 {
				tiles = tiles[1:]
			}
			t.rows, t.first = min(tiles[0].rows, rows-r), r
			if p.layout.float {
				t.float = x[r*t.k:]
			}
			if (g+1)*group <= p.n {
				tiles[0].dot(y[r*p.n+g*group:], p.n, p.group(g), &t.rowTile)
				continue
			}
			tiles[0].dot(t.last[:], group, p.group(g), &t.rowTile)
			for i := range t.rows {
				copy(y[(r+i)*p.n+g*group:(r+i+1)*p.n], t.last[i*group:])
			}
		}
	}
}

// span is how many groups of outputs make a piece of work: enough pieces to keep the threads even, each worth handing out, and
// few enough bytes to stay in a core's cache while all rows pass.
func (s *step) span(p *packed, groups, rows int) int {
	const pieces, worth, cached = 8, 32 << 10, 256 << 10
	span := max(ceilDiv(groups, pieces*s.pool.threads), worth/p.groupBytes()/rows)
	if rows > panelRows {
		span = min(span, cached/p.groupBytes())
	}
	return max(1, span)
}

// quantize makes the panels of a tensor's rows.
func (s *step) quantize(b *buffer, rows, width int) {
	if b.panels != nil {
		return
	}
	blocks := width / blockLen
	b.panels = s.at.panels.take(ceilDiv(rows, panelRows)*blocks, 1<<8)
	if rows <= panelRows { // others may wait meanwhile
		for r := range rows {
			s.kernels.quantizeRow(b.panels, r, b.row(r, width))
		}
		return
	}
	s.eachRow(rows, func(r int) {
		s.kernels.quantizeRow(b.panels[r/panelRows*blocks:][:blocks], r%panelRows, b.row(r, width))
	})
}
