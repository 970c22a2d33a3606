package cpu

import "memra/compute"

// Experts takes the rows to their experts and back:
//
//	rows of x ─ sorted by expert ─> gate, up ─ gated ─> down ─ each row's, by falling key ─> y
//
// Every expert's rows fill panels of their own. A row's products do not depend on who is in its panel (dot.go), so the company that
// a row has at its expert changes nothing, and one row or thousands are the same program.
func (s *step) Experts(x compute.Tensor, r compute.Routes, e compute.Experts, shared compute.Shared) compute.Tensor {
	gate, up, down := e.Gate.Mem.([]*packed), e.Up.Mem.([]*packed), e.Down.Mem.([]*packed)
	y, out := s.tensor(x.Rows, e.Down.Rows)
	if x.Rows == 0 {
		return y
	}
	c := &s.crowd
	c.sort(r.Mem.(*routes).experts, r.Chosen, len(gate))

	in := s.gather(x, c, anyOf(c, false, gate, up), anyOf(c, true, gate, up))
	hidden := e.Gate.Rows
	g, u := s.rowsOf(c, hidden), s.rowsOf(c, hidden)
	s.eachCompany(c, gate, func(thread int, k company, from, to int) {
		s.multiply(thread, g.rows, in, gate[k.expert], k.first, k.rows, from, to)
		s.multiply(thread, u.rows, in, up[k.expert], k.first, k.rows, from, to)
		first, last := from*group, min(to*group, hidden)
		for i := k.first; i < k.first+k.rows; i++ {
			gi, ui := g.row(i, hidden)[first:last], u.row(i, hidden)[first:last]
			s.addBias(gi, e.Gate.Bias, k.expert*hidden+first)
			s.addBias(ui, e.Up.Bias, k.expert*hidden+first)
			s.gateRow(gi, ui, &e)
		}
	})
	if anyOf(c, false, down) {
		s.quantizeCrowd(g, c, hidden)
	}
	d := s.rowsOf(c, e.Down.Rows)
	s.eachCompany(c, down, func(thread int, k company, from, to int) {
		s.multiply(thread, d.rows, g, down[k.expert], k.first, k.rows, from, to)
		first, last := from*group, min(to*group, e.Down.Rows)
		for i := k.first; i < k.first+k.rows; i++ {
			s.addBias(d.row(i, e.Down.Rows)[first:last], e.Down.Bias, k.expert*e.Down.Rows+first)
		}
	})
	weights := r.Mem.(*routes).weights
	s.eachRow(x.Rows, func(i int) {
		row := out.row(i, y.Width)
		clear(row)
		for j := range r.Chosen {
			addScaled(row, d.row(int(c.place[i*r.Chosen+j]), y.Width), weights[i*r.Chosen+j])
		}
		if shared.Out.IsZero() {
			return
		}
		factor := float32(1)
		if !shared.Gate.IsZero() {
			factor = 1 / (1 + exp(-mem(shared.Gate).rows[i]))
		}
		addScaled(row, mem(shared.Out).row(i, y.Width), factor)
	})
	return y
}

// addScaled is y = y + x*w, product and sum rounded.
func addScaled(y, x []float32, w float32) {
	for i, v := range x {
		y[i] += float32(v * w)
	}
}

// addBias adds the part of a bias that begins at a place; a zero bias is none.
func (s *step) addBias(row []float32, bias compute.Vector, from int) {
	if !bias.IsZero() {
		s.kernels.add(row, row, values(bias)[from:][:len(row)])
	}
}

// gateRow gates g by u, into g. Both are lost.
func (s *step) gateRow(g, u []float32, e *compute.Experts) {
	switch e.Gating {
	case compute.SwiGLU:
		s.kernels.swiglu(g, g, u)
	case compute.GeGLU:
		s.kernels.geglu(g, g, u)
	case compute.ClampedSwiGLU:
		clampGo(g, u, e.Limit)
		s.kernels.swiglu(g, g, u)
	}
}

// clampGo prepares ClampedSwiGLU: g = a*min(g, limit), u = (max(min(u, limit), -limit) + 1) * (1/a), each operator rounded.
func clampGo(g, u []float32, limit float32) {
	const inverse = float32(1 / compute.Alpha)
	for i := range g {
		g[i] = min(g[i], limit) * compute.Alpha
		u[i] = (max(min(u[i], limit), -limit) + 1) * inverse
	}
}

// crowd is a step's rows sorted by expert. Its memory is kept from step to step.
type crowd struct {
	companies []company
	place     []int32 // of row r's j-th expert, at r*chosen+j: where among the sorted rows it stands
	from      []int32 // the row that stands at a place; -1: nobody
	counts    []int32 // by expert
	jobs      []job
}

// company is the rows of one expert, from a panel's beginning.
type company struct {
	expert      int
	first, rows int
}

// job is some outputs, groups [from, to), of a company.
type job struct{ company, from, to int }

// sort gives every (row, choice) its place: experts ascending, each from the beginning of a panel, rows ascending within one.
func (c *crowd) sort(experts []int32, chosen, n int) {
	c.counts = append(c.counts[:0], make([]int32, n)...)
	for _, e := range experts {
		c.counts[e]++
	}
	c.companies, c.from = c.companies[:0], c.from[:0]
	places := 0
	for e, rows := range c.counts {
		c.counts[e] = int32(places) // from now on: the next free place
		if rows > 0 {
			c.companies = append(c.companies, company{e, places, int(rows)})
			places += ceilDiv(int(rows), panelRows) * panelRows
		}
	}
	for range places {
		c.from = append(c.from, -1)
	}
	c.place = c.place[:0]
	for i, e := range experts {
		at := c.counts[e]
		c.counts[e]++
		c.place, c.from[at] = append(c.place, at), int32(i/chosen)
	}
}

// anyOf reports whether a weight of an expert with rows takes floats, or whether one takes quantised activations.
func anyOf(c *crowd, float bool, weights ...[]*packed) bool {
	for _, k := range c.companies {
		for _, w := range weights {
			if w[k.expert].layout.float == float {
				return true
			}
		}
	}
	return false
}

// rowsOf is room for a row of values at each place.
func (s *step) rowsOf(c *crowd, width int) *buffer {
	return &buffer{rows: s.at.rows.take(len(c.from)*width, 1<<16)}
}

// gather puts copies of x's rows at their places: quantised, as they are, or both.
func (s *step) gather(x compute.Tensor, c *crowd, quantised, floats bool) *buffer {
	in, blocks := &buffer{}, x.Width/blockLen
	if quantised {
		s.quantize(s.ready(x), x.Rows, x.Width)
		in.panels = s.at.panels.take(len(c.from)/panelRows*blocks, 1<<8)
	}
	if floats {
		in.rows = s.at.rows.take(len(c.from)*x.Width, 1<<16)
	}
	s.eachPlace(c, func(at, r int) {
		if floats {
			copy(in.row(at, x.Width), mem(x).row(r, x.Width))
		}
		if quantised {
			to, from := in.panels[at/panelRows*blocks:][:blocks], mem(x).panels[r/panelRows*blocks:][:blocks]
			for b := range to {
				to[b].take(at%panelRows, &from[b], r%panelRows)
			}
		}
	})
	return in
}

// take copies a row of another panel.
func (p *panelBlock) take(r int, from *panelBlock, row int) {
	p.q[r], p.d[r], p.sd[r], p.neg[r], p.negLo[r] = from.q[row], from.d[row], from.sd[row], from.neg[row], from.negLo[row]
}

// quantizeCrowd makes the panels of the rows at all places.
func (s *step) quantizeCrowd(b *buffer, c *crowd, width int) {
	blocks := width / blockLen
	b.panels = s.at.panels.take(len(c.from)/panelRows*blocks, 1<<8)
	s.eachPlace(c, func(at, _ int) {
		s.kernels.quantizeRow(b.panels[at/panelRows*blocks:][:blocks], at%panelRows, b.row(at, width))
	})
}

// eachPlace runs work for all places with a row, a panel a piece.
func (s *step) eachPlace(c *crowd, work func(at, row int)) {
	s.run(len(c.from)/panelRows, func(_, panel int) {
		for at := panel * panelRows; at < (panel+1)*panelRows; at++ {
			if r := c.from[at]; r >= 0 {
				work(at, int(r))
			}
		}
	})
}

// eachCompany runs work for all outputs of all experts that have rows, some groups of one expert a piece.
func (s *step) eachCompany(c *crowd, weights []*packed, work func(thread int, k company, from, to int)) {
	c.jobs = c.jobs[:0]
	for i, k := range c.companies {
		p := weights[k.expert]
		groups := ceilDiv(p.n, group)
		span := s.span(p, groups, k.rows)
		for from := 0; from < groups; from += span {
			c.jobs = append(c.jobs, job{i, from, min(groups, from+span)})
		}
	}
	s.run(len(c.jobs), func(thread, i int) {
		j := c.jobs[i]
		work(thread, c.companies[j.company], j.from, j.to)
	})
}
