// swiglu, geglu: y = act(g) * u as an operand: silu(x) = x/(1+exp(-x)); gelu's tanh form, x/(1+exp(-2*sqrt(2/pi)*(x+0.044715x^3))).
//
// The f32 result is bit for bit the CPU class's; the operand holds it times a power of two, `scale`, in f16.
//
// Needs    width % 8 == 0. Launch: grid (ceil(padded(width)/1024), rows), block 128. Formulas: compute.Ops.
#include "gate.cuh"

template <class Act>
__device__ void gate(half* y, const float* g, const float* u, int width, int tile, float scale) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k < padded(width)) gate_8<Act>(y, g, u, width, tile, scale, blockIdx.y, k, false);
}

KERNEL(128) swiglu(half* y, const float* g, const float* u, int width, int tile, float scale) { gate<Silu>(y, g, u, width, tile, scale); }
KERNEL(128) geglu(half* y, const float* g, const float* u, int width, int tile, float scale) { gate<Gelu>(y, g, u, width, tile, scale); }
