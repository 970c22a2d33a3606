package cpu

import "memra/compute"

// product is a matmul that waits. Siblings, products that need nothing of each other, are computed together when something else is: a round of the
// pool costs as much as a small product.
type product struct {
	in, out      *buffer
	w            *packed
	rows         int
	bias         compute.Vector
	groups, span int // of outputs; of a piece
	pieces       int
}

// later has a product wait. Its rows are quantised.
func (s *step) later(p product) {
	p.groups = ceilDiv(p.w.n, group)
	p.span = s.span(p.w, p.groups, p.rows)
	p.pieces = ceilDiv(p.groups, p.span)
	p.out.waits = true
	s.waiting = append(s.waiting, p)
}

// settle computes the products that wait.
func (s *step) settle() {
	if len(s.waiting) == 0 {
		return
	}
	pieces := 0
	for i := range s.waiting {
		s.waiting[i].out.waits = false
		pieces += s.waiting[i].pieces
	}
	s.pool.run(pieces, s.work)
	all := s.waiting
	s.waiting = s.waiting[:0]
	for _, p := range all {
		if !p.bias.IsZero() {
			s.eachRow(p.rows, func(r int) { s.kernels.add(p.out.row(r, p.w.n), p.out.row(r, p.w.n), values(p.bias)) })
		}
	}
}

// pieceOfProducts computes piece i of the products that wait.
func (s *step) pieceOfProducts(thread, i int) {
	p := &s.waiting[0]
	for n := 0; i >= p.pieces; p = &s.waiting[n] {
		i -= p.pieces
		n++
	}
	from, to := i*p.span, min(p.groups, (i+1)*p.span)
	s.multiply(thread, p.out.rows, p.in, p.w, 0, p.rows, from, to)
}

// run is a round of the pool, after the products that wait.
func (s *step) run(pieces int, work func(thread, i int)) {
	s.settle()
	s.pool.run(pieces, work)
}
