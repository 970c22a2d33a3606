package cuda

import (
	"errors"

	"memra/compute"
	"memra/gguf"
)

var errExperts = errors.New("cuda: mixtures of experts are not computed here yet; take --device cpu")

// PackExperts: not yet.
func (d *Device) PackExperts(gguf.Type, int, int, int, func(e int) ([]byte, func(), error)) (compute.Weight, error) {
	return compute.Weight{}, errExperts
}

// Router: not yet.
func (s *step) Router(x compute.Tensor, w compute.Weight, o compute.Routing) compute.Routes {
	s.fail(errExperts)
	return compute.Routes{Rows: x.Rows, Chosen: o.Chosen}
}

// Experts: not yet.
func (s *step) Experts(x compute.Tensor, r compute.Routes, e compute.Experts, shared compute.Shared) compute.Tensor {
	s.fail(errExperts)
	return x
}
