package cpu

import "memra/compute"

// step is the operations of one step. Tensors of layers i and i+1 lie in different arenas, so a layer's tensors live until
// the next layer ends.
type step struct {
	*Device
	arenas [3]memory // of what comes before the layers, of even and of odd layers
	at     *memory
	turned []turned // this step's
	ropes  []*ropeCache
	crowd  crowd   // of the last Experts
	sorted sorting // of the last delta net

	pieces  []attendPiece // of the last Attention
	waiting []product
	work    func(thread, i int) // pieceOfProducts, bound once

	roughly bool // logits may be rough: nothing but tokens is drawn
}

// memory is where tensors lie.
type memory struct {
	rows    arena[float32]
	panels  arena[panelBlock]
	buffers arena[buffer]
	indices arena[int32]
}

func (m *memory) reset() {
	m.rows.reset()
	m.panels.reset()
	m.buffers.reset()
	m.indices.reset()
}

// buffer is the memory of a tensor: its rows, and the same quantised once a matmul has asked for it. Of rough logits it has what is known.
type buffer struct {
	rows   []float32
	panels []panelBlock
	rough  *rough
	waits  bool // for a product
}

// row is row r of a tensor of the given width.
func (b *buffer) row(r, width int) []float32 { return b.rows[r*width:][:width:width] }

func (s *step) begin() {
	for i := range s.arenas {
		s.arenas[i].reset()
	}
	s.at = &s.arenas[0]
	s.turned = s.turned[:0]
	s.sorted.batch = nil
	s.waiting, s.work = s.waiting[:0], s.pieceOfProducts
}

// Layer moves on to the other arena, and ends what it held: the tensors of the layer before the last.
func (s *step) Layer(i int) {
	s.settle()
	s.at = &s.arenas[1+i%2]
	s.at.reset()
}

func (s *step) tensor(rows, width int) (compute.Tensor, *buffer) {
	b := &s.at.buffers.take(1, 1<<6)[0]
	*b = buffer{rows: s.at.rows.take(rows*width, 1<<16)}
	return compute.Tensor{Rows: rows, Width: width, Mem: b}, b
}

func values(v compute.Vector) []float32 { return v.Mem.([]float32) }

// mem is the memory of a tensor that an operation reads as it is.
func mem(t compute.Tensor) *buffer {
	b := t.Mem.(*buffer)
	if b.rough != nil {
		panic("cpu: an operation on logits that are known roughly; draw from them, or teach it as Scale was")
	}
	if b.waits {
		panic("cpu: an operation on a product that waits; begin with a round of rows, or with ready")
	}
	return b
}

// ready is mem outside of rounds, which would have settled what waits.
func (s *step) ready(t compute.Tensor) *buffer {
	if t.Mem.(*buffer).waits {
		s.settle()
	}
	return mem(t)
}

// eachRow runs work for rows [0, rows), those of a panel in one piece, so that threads do not write to one cache line. Few rows
// do not wake a thread.
func (s *step) eachRow(rows int, work func(r int)) {
	s.settle()
	if rows <= panelRows || s.pool.threads == 1 {
		for r := range rows {
			work(r)
		}
		return
	}
	s.pool.run(ceilDiv(rows, panelRows), func(_, i int) {
		for r := i * panelRows; r < min(rows, (i+1)*panelRows); r++ {
			work(r)
		}
	})
}

// eachDearRow is eachRow for rows that are worth a thread each, and that write to no panel.
func (s *step) eachDearRow(rows int, work func(r int)) {
	s.run(rows, func(_, r int) { work(r) })
}

// Embed: x = scale * w, one rounding.
func (s *step) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	x, m := s.tensor(b.Rows(), w.Width)
	s.eachRow(b.Rows(), func(r int) {
		row := m.row(r, w.Width)
		w.Mem.(*packed).row(row, int(b.Tokens[r]))
		if scale != 1 {
			for i := range row {
				row[i] *= scale
			}
		}
	})
	return x
}

// AddNorm: the sum rounds once; the norm is sumSquares, normScale, scale.
func (s *step) AddNorm(x, y compute.Tensor, g compute.Vector, eps float32) (sum, n compute.Tensor) {
	if y.IsZero() {
		return x, s.Norm(x, g, eps)
	}
	sum, sm := s.tensor(x.Rows, x.Width)
	n, nm := s.tensor(x.Rows, x.Width)
	s.eachRow(x.Rows, func(r int) {
		row := sm.row(r, x.Width)
		s.kernels.add(row, mem(x).row(r, x.Width), mem(y).row(r, x.Width))
		s.norm(nm.row(r, x.Width), row, values(g), eps)
	})
	return sum, n
}

// Norm is AddNorm's norm, group by group.
func (s *step) Norm(x compute.Tensor, g compute.Vector, eps float32) compute.Tensor {
	n, nm := s.tensor(x.Rows, x.Width)
	s.eachRow(x.Rows, func(r int) {
		in, out := mem(x).row(r, x.Width), nm.row(r, x.Width)
		for at := 0; at < x.Width; at += g.Width {
			s.norm(out[at:][:g.Width], in[at:][:g.Width], values(g), eps)
		}
	})
	return n
}

// norm is the root mean square norm of one row; y may be x.
func (s *step) norm(y, x, g []float32, eps float32) {
	s.kernels.scale(y, x, g, normScale(s.kernels.sumSquares(x), len(x), eps))
}

// QKNormRope works in place, but on the queries of a gated projection, which it takes out.
func (s *step) QKNormRope(b *compute.Batch, q, k compute.Tensor, o compute.QK) (compute.Tensor, compute.Tensor) {
	if o.Gated {
		q = s.ungated(q, o.HeadDim)
	}
	var t turns
	if o.Rope != nil {
		t = s.turnsOf(b, o.Rope)
	}
	heads := func(x compute.Tensor, r int, g compute.Vector) {
		row := mem(x).row(r, x.Width)
		for at := 0; at < len(row); at += o.HeadDim {
			head := row[at : at+o.HeadDim]
			if !g.IsZero() {
				s.norm(head, head, values(g), o.Eps)
			}
			if o.Rope != nil {
				half := o.Rope.Dims / 2
				s.kernels.rotate(head, o.Rope, t.cos[r*half:][:half], t.sin[r*half:][:half])
			}
		}
	}
	s.eachRow(b.Rows(), func(r int) {
		heads(q, r, o.QNorm)
		if !k.IsZero() {
			heads(k, r, o.KNorm)
		}
	})
	return q, k
}

// AppendKV rounds to the cache's format.
func (s *step) AppendKV(b *compute.Batch, kv compute.KV, k, v compute.Tensor) {
	m := kv.Memory.(*kvMemory)
	s.eachRow(b.Rows(), func(r int) {
		if slot := b.Slots[r]; slot >= 0 {
			p := int(b.Positions[r])
			m.store(s.kernels, kv.Layer, int(kv.Tables[slot][p/compute.Page]), p%compute.Page, mem(k).row(r, k.Width), mem(v).row(r, v.Width))
		}
	})
}

// SwiGLU: see swigluGo.
func (s *step) SwiGLU(g, u compute.Tensor) compute.Tensor { return s.gate(g, u, s.kernels.swiglu) }

// GeGLU: see gegluGo.
func (s *step) GeGLU(g, u compute.Tensor) compute.Tensor { return s.gate(g, u, s.kernels.geglu) }

func (s *step) gate(g, u compute.Tensor, f func(y, g, u []float32)) compute.Tensor {
	y, m := s.tensor(g.Rows, g.Width)
	s.eachRow(g.Rows, func(r int) {
		f(m.row(r, g.Width), mem(g).row(r, g.Width), mem(u).row(r, g.Width))
	})
	return y
}
