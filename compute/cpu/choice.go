package cpu

import (
	"fmt"
	"math"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// choice is rows of a weight in layoutQ8, whatever the weight's own layout.
type choice struct {
	from   *packed
	chosen packed  // its n is up to the last place that is taken
	rows   []int32 // of `from`, by place; none: -1
	mapped []byte
}

// NewChoice: see compute.Device. Rows that are no blocks of 32, and biased ones, cannot be chosen.
func (d *Device) NewChoice(w compute.Weight, places int) (compute.Choice, error) {
	p := w.Mem.(*packed)
	switch {
	case places <= 0 || places > p.n:
		return nil, fmt.Errorf("cpu: room for %d rows of a weight [%d %d], want 1 to %d", places, p.n, p.k, p.n)
	case p.k%blockLen != 0:
		return nil, fmt.Errorf("cpu: rows of width %d, want a multiple of %d: %w", p.k, blockLen, compute.ErrNoChoice)
	case !w.Bias.IsZero():
		return nil, fmt.Errorf("cpu: a weight with a bias: %w", compute.ErrNoChoice)
	}
	c := &choice{from: p, chosen: packed{layout: layoutQ8, k: p.k, blocks: p.k / blockLen}, rows: make([]int32, places)}
	for i := range c.rows {
		c.rows[i] = -1
	}
	bytes := ceilDiv(places, group) * c.chosen.groupBytes()
	var err error
	if c.mapped, err = mapAnonymous(bytes); err != nil {
		return nil, fmt.Errorf("cpu: %d bytes for %d rows of a weight: %w", bytes, places, err)
	}
	c.chosen.data = c.mapped
	return c, nil
}

func (c *choice) Places() int { return len(c.rows) }

func (c *choice) Close() error {
	mapped := c.mapped
	c.mapped, c.chosen.data = nil, nil
	return unmap(mapped)
}

// Choose rounds the rows to Q8_0, which changes those little that are of 8 bits or fewer, and copies those that are in it. Neighbouring places
// share lines of a cache, which threads may write to side by side: no byte is of two places.
func (s *step) Choose(to compute.Choice, places, rows []int32) {
	c := to.(*choice)
	for i, p := range places {
		c.rows[p] = rows[i]
		c.chosen.n = max(c.chosen.n, int(p)+1)
	}
	format, err := quant.For(gguf.Q8_0)
	if err != nil {
		panic(err) // it is always there
	}
	bytes := c.from.k / blockLen * format.Bytes
	if c.from.layout == layoutQ8 {
		for i, p := range places {
			from, to := int(rows[i]), int(p)
			copyOutput(c.chosen.group(to/group), c.from.group(from/group), to%group, from%group)
		}
		return
	}
	s.run(ceilDiv(len(places), group), func(_, piece int) {
		row, data := make([]float32, c.from.k), make([]byte, bytes)
		for i := piece * group; i < min(len(places), (piece+1)*group); i++ {
			c.from.row(row, int(rows[i]))
			format.Quantize(data, row, nil)
			place := int(places[i])
			layoutQ8.pack(c.chosen.group(place/group), data, place%group)
		}
	})
}

// copyOutput copies an output's part of a group of layoutQ8.
func copyOutput(dst, src []byte, to, from int) {
	for ; len(src) > 0; dst, src = dst[layoutQ8.bytes:], src[layoutQ8.bytes:] {
		copy(dst[2*to:][:2], src[2*from:])
		for at := scaleBytes; at < layoutQ8.bytes; at += 4 * group {
			copy(dst[at+4*to:][:4], src[at+4*from:])
		}
	}
}

// MatMulChosen multiplies by what was chosen, and spreads the products.
func (s *step) MatMulChosen(x compute.Tensor, of compute.Choice) compute.Tensor {
	c := of.(*choice)
	products := s.MatMul(x, compute.Weight{Rows: c.chosen.n, Width: c.chosen.k, Mem: &c.chosen})
	y, out := s.tensor(x.Rows, c.from.n)
	s.eachDearRow(x.Rows, func(r int) {
		row := out.row(r, c.from.n)
		row[0] = float32(math.Inf(-1))
		for n := 1; n < len(row); n *= 2 {
			copy(row[n:], row[:n])
		}
		for i, v := range mem(products).row(r, c.chosen.n) {
			if to := c.rows[i]; to >= 0 {
				row[to] = v
			}
		}
	})
	return y
}
