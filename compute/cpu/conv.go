package cpu

import "memra/compute"

// CausalConv: products ascending by tap, each rounded, then silu, one quotient. Rows are computed side by side, so
// their inputs are kept last.
func (s *step) CausalConv(b *compute.Batch, d compute.Delta, x compute.Tensor, w compute.Vector) compute.Tensor {
	y, out := s.tensor(x.Rows, x.Width)
	clearPadding(b, out, x.Width)
	shape := d.Memory.Shape()
	sequences := s.histories(b, d)
	all := make([]convolution, len(sequences))
	places := make([]rowPlace, 0, b.Rows()) // of all sequences' rows, one after another
	for n := range all {
		all[n] = convolution{step: s, history: &sequences[n], taps: shape.Taps, width: x.Width, x: s.ready(x), w: values(w)}
		for i := range all[n].rows {
			places = append(places, rowPlace{n, i})
		}
	}
	s.eachDearRow(len(places), func(r int) {
		c, i := &all[places[r].sequence], places[r].row
		c.row(out.row(c.rows[i], x.Width), i)
	})
	s.run(len(all), func(_, n int) { all[n].keep() })
	return y
}

// rowPlace is a row of a sequence: which of a step's, and which of its rows.
type rowPlace struct{ sequence, row int }

// convolution is the rows of one sequence.
type convolution struct {
	*step
	*history
	taps, width int
	x           *buffer
	w           []float32 // [taps, width]
}

// input is the row i of the step, or one before it, which a page has kept; nil before the sequence began.
func (c *convolution) input(i int) []float32 {
	if i >= 0 {
		return c.x.row(c.rows[i], c.width)
	}
	if c.first+i < 0 {
		return nil
	}
	page, place := c.pages[0], c.first%compute.Page+i
	if c.first%compute.Page == 0 { // the page begins with this step
		page, place = c.past, compute.Page+i
	}
	return page.x[(place+c.taps-1)*c.width:][:c.width]
}

func (c *convolution) row(y []float32, i int) {
	clear(y)
	for j := range c.taps {
		if x := c.input(i - c.taps + 1 + j); x != nil {
			c.kernels.addProducts(y, c.w[j*c.width:][:c.width], x)
		}
	}
	c.kernels.sigmoid(y, y, y)
}

// keep stores the inputs where their pages are kept, and with a page's first row those before it.
func (c *convolution) keep() {
	for i := range c.rows {
		n, place := c.place(i)
		page := c.pages[n]
		if page == nil {
			continue
		}
		from := i
		if place == 0 {
			from = i - c.taps + 1
		}
		for ; from <= i; from++ {
			dst := page.x[(place+c.taps-1-(i-from))*c.width:][:c.width]
			if x := c.input(from); x != nil {
				copy(dst, x)
			} else {
				clear(dst)
			}
		}
	}
}

// addProductsGo is y += w*x, the product rounded.
func addProductsGo(y, w, x []float32) {
	for i, v := range x {
		y[i] += float32(w[i] * v)
	}
}

// sigmoidGo is y = x / (1 + exp(-z)): x where the gate z is open. With z = x it is silu.
func sigmoidGo(y, x, z []float32) {
	for i, v := range z {
		y[i] = x[i] / (1 + exp(-v))
	}
}
