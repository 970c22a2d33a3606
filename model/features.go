package model

import (
	"memra/compute"
	"memra/state"
)

// Features computes the rows of b as Forward does, and returns what that makes its logits of: the rows after the last norm, [rows, width], whether
// they ask for logits or not.
func (m *Model) Features(ops compute.Ops, b *compute.Batch, s *state.View) compute.Tensor {
	t := &tap{Ops: ops}
	m.Forward(t, b, s)
	return t.features
}

// tap takes what logits would be made of, and makes none.
type tap struct {
	compute.Ops
	features compute.Tensor
	open     bool
}

func (t *tap) Logits(_ *compute.Batch, x compute.Tensor, _ compute.Weight) compute.Tensor {
	t.features, t.open = x, true
	return x
}

// Scale, of logits that there are not, changes nothing.
func (t *tap) Scale(x compute.Tensor, scale, limit float32) compute.Tensor {
	if t.open {
		return x
	}
	return t.Ops.Scale(x, scale, limit)
}
