// Package cuda computes on an NVIDIA GPU, through the driver alone: no toolkit and no cgo, libcuda is opened at run time.
//
//	d, err := cuda.Open(0)      // the error says what is missing: driver, GPU, a newer driver
//	defer d.Close()
//	rows, err := d.Run(func(ops compute.Ops) compute.Tensor { return model.Forward(ops, batch, view) })
//
// Who owns what. One goroutine at a time has the context, on a thread of its own for so long (owner.go).
// A step first records its launches (step.go), then issues them: as they are the first time, later as a graph that was
// captured from an equal list (graph.go). So a graph computes what the eager step computes, by construction; what changes from
// step to step (tokens, positions, page tables) lies in device memory at addresses that do not (input.go).
//
// The class, operation by operation; kernels/NAME.cu states each order:
//
//	weights     dequantised to f16 in registers, each row scaled by a power of two (kernels/layouts.cuh)
//	MatMul      f16 activations, f32 sums: chained over k16 within segments of 512 of K, segments added ascending
//	Attention   scores and values by f16 products, softmax in f32; pages ascending, splits at absolute positions (kernels/pages.cuh)
//	norms       f32; an order that the width decides (kernels/norm.cu)
//	SwiGLU, GeGLU, rotation  f32, the CPU class's bits; products are then rounded to f16 (kernels/gate.cu, kernels/rope.cu)
//	draws       package sample's bits for the same logits (kernels/sample.cu)
//
// Tensors are f32 rows, or operands: f16, tiled for the tensor cores (kernels/operand.cuh), which is what norms, gates and
// attention write for the matmuls that follow. Kernels are compiled by tools/cuda-build and embedded; docs/cuda.md says how to
// add one.
package cuda

//go:generate ../../tools/cuda-build
