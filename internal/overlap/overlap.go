// Package overlap is a device that takes a step in before the one before was waited for, as GPUs do, made of one that does not. It is for tests
// where there is no GPU.
package overlap

import (
	"memra/compute"
	"memra/sample"
)

// Device computes each step when it is begun. It counts what its caller does.
type Device struct {
	compute.Device
	drawn []int32 // what the draws of the last step gave

	Begun, Waited int // steps
	Ahead         int // that were begun while one was under way
	Disorder      int // that were begun as the third, or waited for out of turn
}

// Start: see compute.Overlapping.
func (d *Device) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (wait func() ([]sample.Pick, error), err error) {
	picks, err := d.Device.Sample(func(ops compute.Ops) compute.Tensor { return forward(resolving{ops, d.drawn}) }, draws)
	if err != nil {
		return nil, err
	}
	d.drawn = d.drawn[:0]
	for _, p := range picks {
		d.drawn = append(d.drawn, max(p.Token, 0)) // of a row that gives none, any
	}
	if d.Begun > d.Waited {
		d.Ahead++
	}
	if d.Begun-d.Waited > 1 {
		d.Disorder++
	}
	turn := d.Begun
	d.Begun++
	return func() ([]sample.Pick, error) {
		if turn != d.Waited {
			d.Disorder++
		}
		d.Waited++
		return picks, nil
	}, nil
}

// resolving is operations that know what was drawn.
type resolving struct {
	compute.Ops
	drawn []int32
}

func (r resolving) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	for i, t := range b.Tokens {
		if t < 0 {
			b.Tokens[i] = r.drawn[-1-t]
		}
	}
	return r.Ops.Embed(b, w, scale)
}
