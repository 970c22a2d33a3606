package cuda

import (
	"fmt"

	"memra/compute"
)

// choice is rows of a weight in f16, as the matmuls see them.
type choice struct {
	device *Device
	from   *packed
	chosen packed
	places pointer // of each row of `from`; none, or what another row has got since
	rows   pointer // of `from`, by place; none: below 0
}

// NewChoice: see compute.Device. Weights with a bias cannot be chosen from, nor those that stay float32.
func (d *Device) NewChoice(w compute.Weight, places int) (compute.Choice, error) {
	p := w.Mem.(*packed)
	switch {
	case places <= 0 || places > p.n:
		return nil, fmt.Errorf("cuda: room for %d rows of a weight [%d %d], want 1 to %d", places, p.n, p.k, p.n)
	case p.layout == layoutF32:
		return nil, fmt.Errorf("cuda: a weight that f16 cannot hold: %w", compute.ErrNoChoice)
	case !w.Bias.IsZero():
		return nil, fmt.Errorf("cuda: a weight with a bias: %w", compute.ErrNoChoice)
	}
	c := &choice{device: d, from: p, chosen: packed{layout: layoutF16, n: places, k: p.k}}
	var err error
	if c.chosen.data, c.chosen.scales, err = d.room(c.chosen.tileBytes(), 4*places, "%d rows of a weight [%d %d]", places, p.n, p.k); err != nil {
		return nil, err
	}
	err = d.owner.do(func() (err error) {
		for _, list := range []struct {
			at *pointer
			n  int
		}{{&c.places, p.n}, {&c.rows, places}} {
			if *list.at, err = d.alloc(4*list.n, "places of chosen rows"); err != nil {
				return err
			}
			if err := check(d.driver, d.driver.memset(*list.at, 0xff, 4*list.n, d.stream), "cuMemsetD8Async(%d bytes)", 4*list.n); err != nil {
				return d.broken(err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *choice) Places() int { return c.chosen.n }

// Close: see compute.Choice.
func (c *choice) Close() error {
	d := c.device
	if d.owner == nil { // the device has freed it
		return nil
	}
	return d.owner.do(func() error {
		for _, at := range []pointer{c.chosen.data, c.chosen.scales, c.places, c.rows} {
			if err := d.free(at); err != nil {
				return err
			}
		}
		return nil
	})
}

// Choose launches choose_LAYOUT; kernels/choose.cu states the contract.
func (s *step) Choose(to compute.Choice, places, rows []int32) {
	c := to.(*choice)
	ints := func(list []int32) pointer { return s.ints(len(list), func(to []int32) { copy(to, list) }) }
	s.launch("choose_"+c.from.layout.name, shape{grid: grid(len(rows), 1), block: 128}, c.chosen.data.arg(), c.chosen.scales.arg(), c.places.arg(), c.rows.arg(),
		c.from.data.arg(), c.from.scales.arg(), ints(places).arg(), ints(rows).arg(), i32(c.from.ktiles()))
}

// MatMulChosen multiplies by what was chosen, and spreads the products.
func (s *step) MatMulChosen(x compute.Tensor, of compute.Choice) compute.Tensor {
	c := of.(*choice)
	products := s.MatMul(x, compute.Weight{Rows: c.chosen.n, Width: c.chosen.k, Mem: &c.chosen})
	y, out := s.newRows(x.Rows, c.from.n)
	s.launch("spread", shape{grid: grid(ceilDiv(c.from.n, 1024), x.Rows), block: 128},
		out.rows.arg(), s.asRows(products).arg(), c.places.arg(), c.rows.arg(), i32(c.from.n), i32(c.chosen.n))
	return y
}
