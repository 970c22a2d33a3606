// swiglu, geglu: y = act(g) * u as an operand: silu(x) = x/(1+exp(-x)); gelu's tanh form, x/(1+exp(-2*sqrt(2/pi)*(x+0.044715x^3))).
//
// The f32 result is bit for bit the CPU class's; the operand holds it times a power of two, `scale`, in f16.
//
// Needs    width % 8 == 0. Launch: grid (ceil(padded(width)/1024), rows), block 128. Formulas: compute.Ops.
#include "operand.cuh"

struct Silu {
    static __device__ float of(float x) { return __fdiv_rn(x, __fadd_rn(1.f, exp_(-x))); }
};
struct Gelu {
    static __device__ float of(float x) {
        float t = __fadd_rn(__fmul_rn(0.044715f, __fmul_rn(x, x)), 1.f);
        float z = __fmul_rn(__fmul_rn(x, t), 1.5957691216057308f);
        return __fdiv_rn(x, __fadd_rn(1.f, exp_(-z)));
    }
};

template <class Act>
__device__ void gate(half* y, const float* g, const float* u, int width, int tile, float scale) {
    start();
    int row = blockIdx.y, k = (blockIdx.x * 128 + threadIdx.x) * 8, kpad = padded(width);
    if (k >= kpad) return;
    float a[8] = {}, b[8];
    if (k < width) {
        load8(a, g + (size_t)row * width + k);
        load8(b, u + (size_t)row * width + k);
#pragma unroll
        for (int i = 0; i < 8; i++) a[i] = __fmul_rn(Act::of(a[i]), b[i]);
    }
    store8(y, row, k, tile, kpad, a, scale);
}

KERNEL(128) swiglu(half* y, const float* g, const float* u, int width, int tile, float scale) { gate<Silu>(y, g, u, width, tile, scale); }
KERNEL(128) geglu(half* y, const float* g, const float* u, int width, int tile, float scale) { gate<Gelu>(y, g, u, width, tile, scale); }
