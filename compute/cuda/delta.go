package cuda

import (
	"errors"

	"memra/compute"
)

var errDelta = errors.New("cuda: delta-net layers are computed on the CPU only")

// DeltaFormat: see compute.Device.
func (d *Device) DeltaFormat() compute.DeltaFormat { return compute.DeltaF16 }

// NewDelta refuses.
func (d *Device) NewDelta(compute.DeltaShape, int) (compute.DeltaMemory, error) { return nil, errDelta }

// CausalConv, GatedDelta and GatedNorm refuse.
func (s *step) CausalConv(b *compute.Batch, d compute.Delta, x compute.Tensor, w compute.Vector) compute.Tensor {
	s.fail(errDelta)
	return x
}

func (s *step) GatedDelta(b *compute.Batch, d compute.Delta, x, beta, alpha compute.Tensor, g compute.DeltaGates) compute.Tensor {
	s.fail(errDelta)
	return x
}

func (s *step) GatedNorm(x, z compute.Tensor, g compute.Vector, eps float32) compute.Tensor {
	s.fail(errDelta)
	return x
}
