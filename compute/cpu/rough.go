package cpu

import (
	"math"
	"slices"

	"memra/compute"
	"memra/sample"
)

// rough is what logits lack of which only the first product is known (Logits): the second, of what rows lose when they are quantised. That is
// little: nearly always a token is out of the question whatever its second product is, so only a few are multiplied. What is drawn is the same.
type rough struct {
	weight     *packed
	first      *buffer        // products
	lost       compute.Tensor // by rows
	slack      []float64      // of each row: how far a logit is from what it is, at most
	scale, cap float32        // what Scale did since
}

// roughLogits are those of rows that are quantised.
func (s *step) roughLogits(rows compute.Tensor, w compute.Weight) compute.Tensor {
	const more = 1.03 // quantising what is lost adds to its length at most 0.0223 of it; and products are rounded
	y := s.MatMul(rows, w)
	lost, m := s.tensor(rows.Rows, rows.Width)
	r := &rough{w.Mem.(*packed), s.ready(y), lost, make([]float64, rows.Rows), 1, 0}
	s.eachRow(rows.Rows, func(i int) {
		row := m.row(i, rows.Width)
		mem(rows).lost(row, i)
		r.slack[i] = more * r.weight.longest * math.Sqrt(float64(s.kernels.sumSquares(row)))
	})
	s.quantize(m, rows.Rows, rows.Width)
	r.first.rough = r
	return y
}

// measure looks at the lengths of some rows of a weight, and reports whether it has seen all: longest is that of the longest then. Steps that could use
// it have it look at a few each, for all of a large vocabulary take as long as some steps do.
func (s *step) measure(p *packed) bool {
	const steps = 128
	groups := ceilDiv(p.n, group)
	if p.measured == groups {
		return true
	}
	from := p.measured
	p.measured = min(groups, from+ceilDiv(groups, steps))
	lengths := make([]float64, p.measured-from)
	s.run(len(lengths), func(_, i int) {
		row, g := make([]float32, p.k), from+i
		for o := g * group; o < min(p.n, (g+1)*group); o++ {
			p.row(row, o)
			lengths[i] = max(lengths[i], 1.001*math.Sqrt(float64(s.kernels.sumSquares(row)))) // sums of squares are rounded
		}
	})
	p.longest = max(p.longest, slices.Max(lengths))
	return p.measured == groups
}

// scaled is what they lack once Scale has been at them.
func (r *rough) scaled(scale, cap float32) *rough {
	if r.scale != 1 || r.cap != 0 {
		panic("cpu: rough logits are scaled twice")
	}
	scaled := *r
	scaled.scale, scaled.cap, scaled.slack = scale, cap, make([]float64, len(r.slack))
	for i, slack := range r.slack {
		scaled.slack[i] = float64(1.001*slack*math.Abs(float64(scale))) + float64(1e-6*float64(cap)) // a cap brings values nearer, within its own error
	}
	return &scaled
}

// exact is a token's logit, as it is.
func (s *step) exact(r *rough, t *tileScratch, row int, token int32) float32 {
	tiles, blocks := s.kernels.dot[r.weight.layout], r.lost.Width/blockLen
	t.rowTile = rowTile{rows: 1, first: row % panelRows, panel: mem(r.lost).panels[row/panelRows*blocks:][:blocks], k: r.lost.Width}
	tiles[len(tiles)-1].dot(t.last[:], group, r.weight.group(int(token)/group), &t.rowTile)
	y := t.last[:1]
	y[0] = r.first.row(row, r.weight.n)[token] + t.last[token%group]
	s.scaleRow(y, y, r.scale, r.cap)
	return y[0]
}

// drawRoughly answers draws from rough logits. It reports whether all could be.
func (s *step) drawRoughly(picks []sample.Pick, logits compute.Tensor, draws []sample.Draw) (all bool) {
	y := logits.Mem.(*buffer)
	drawn := make([]bool, len(draws))
	s.run(len(draws), func(thread, i int) {
		picks[i], drawn[i] = s.samplers[thread].DrawRough(y.row(i, logits.Width), y.rough.slack[i], draws[i], func(token int32) float32 {
			return s.exact(y.rough, &s.tiles[thread], i, token)
		})
	})
	return !slices.Contains(drawn, false)
}

// whole makes rough logits what they are.
func (s *step) whole(logits compute.Tensor) {
	y := logits.Mem.(*buffer)
	r := y.rough
	y.rough, r.first.rough = nil, nil
	second := s.MatMul(r.lost, compute.Weight{Rows: r.weight.n, Width: r.weight.k, Mem: r.weight})
	s.eachDearRow(logits.Rows, func(i int) {
		row := y.row(i, logits.Width)
		s.kernels.add(row, r.first.row(i, logits.Width), mem(second).row(i, logits.Width))
		s.scaleRow(row, row, r.scale, r.cap)
	})
}
