// What the gated delta rule reads of a row: delta.cu states the formulas and their order.
#pragma once
#include "conv.cuh"

constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ float decay(float top, float g) { return ex2(__fmul_rn(__fsub_rn(top, g), LOG2E)); }

// learning is b of a row and value head, forgetting its g.
__device__ __forceinline__ float learning(float beta) { return opened(1.f, beta); }
__device__ __forceinline__ float forgetting(float alpha, float a, float dt) {
    float t = __fadd_rn(alpha, dt);
    return __fmul_rn(a, t > 20 ? t : log1pf(exp_(t)));
}

// normalise makes of eight values at column k of a row what the rule reads, in f32; `keys` is the columns of all key heads. The lanes of a head
// call it together, in a whole warp.
__device__ __forceinline__ void normalise(float (&v)[8], int k, int keys, int dim, float eps) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum = __fmaf_rn(v[i], v[i], sum);
    for (int step = dim / 16; step > 0; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    if (k >= 2 * keys) return;
    float r = __frcp_rn(__fsqrt_rn(__fadd_rn(sum, eps)));
    if (k < keys) r = __fmul_rn(r, __frcp_rn(__fsqrt_rn((float)dim)));
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = __fmul_rn(v[i], r);
}
