// Norms of groups that are gated, and gates of attention, eight values at a time: gated_norm.cu states the formulas.
#pragma once
#include "halves.cuh"
#include "opened.cuh"
#include "operand.cuh"

// group_sum adds over `lanes` lanes, a power of two; every lane gets the sum. Order: eight squares ascending by fma from zero, then a
// butterfly over the lanes.
__device__ __forceinline__ float group_sum(const float (&v)[8], int lanes) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum = __fmaf_rn(v[i], v[i], sum);
    for (int step = lanes / 2; step > 0; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    return sum;
}

// gated_norm_8 is called by whole warps, whose lanes have consecutive k of a row, from a multiple of the group on; k beyond the padded
// width is nothing. x and z may be mail.
__device__ __forceinline__ void gated_norm_8(half* y, const float* x, const float* z, const float* g, int width, int group, int tile, float eps,
                                             float scale, int row, int k, bool mail) {
    float in[2][8] = {}, w[8] = {};
    if (k < width) {
        load8(w, g + k % group);
        receive(in, {x + (size_t)row * width + k, z + (size_t)row * width + k}, mail);
    }
    float(&v)[8] = in[0], (&a)[8] = in[1];
    float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(group_sum(v, group / 8), (float)group), eps)));
    if (k >= padded(width)) return;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = __fmul_rn(opened(a[i], a[i]), __fmul_rn(__fmul_rn(v[i], r), w[i]));
    store8(y, row, k, tile, padded(width), v, scale);
}

__device__ __forceinline__ void ungated_8(float* y, const float* x, int width, int dim, int row, int k) {
    if (k >= width) return;
    float v[8];
    load8(v, x + (size_t)row * 2 * width + k / dim * 2 * dim + k % dim);
#pragma unroll
    for (int i = 0; i < 8; i++) y[(size_t)row * width + k + i] = v[i];
}

__device__ __forceinline__ void open_gates_8(half* y, const float* q, int width, int dim, int tile, int row, int k) {
    if (k >= width) return;
    half* at = y + operand_at(row, k, tile, padded(width));
    float v[8], a[8];
    load8(v, at);
    load8(a, q + (size_t)row * 2 * width + k / dim * 2 * dim + dim + k % dim);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = opened(v[i], a[i]);
    *(uint4*)at = halves(v);
}
