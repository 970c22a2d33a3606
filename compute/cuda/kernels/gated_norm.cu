// Norms of groups of a row that are gated, and gates of what attention gave.
//
// A group of W values is W/8 lanes of a warp, eight values each. Order of a sum over a group: eight squares ascending by fma from zero, then a
// butterfly over the lanes: W alone decides it.
#include "halves.cuh"
#include "operand.cuh"

// group_sum adds over `lanes` lanes, a power of two; every lane gets the sum.
__device__ __forceinline__ float group_sum(const float (&v)[8], int lanes) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum = __fmaf_rn(v[i], v[i], sum);
    for (int step = lanes / 2; step > 0; step /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    return sum;
}

// gated_norm: y = silu(z) * (g * x / sqrt(mean(x^2) + eps)), the mean over groups of W. y is an operand, times scale, a power of two.
//
// Needs    W = 8, 16, .. 256, width % W == 0. Launch: grid (ceil(padded(width)/1024), rows), block 128. Formula: compute.Ops.GatedNorm.
KERNEL(128) gated_norm(half* y, const float* x, const float* z, const float* g, int width, int group, int tile, float eps, float scale) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8, row = blockIdx.y;
    float v[8] = {}, a[8] = {}, w[8] = {};
    if (k < width) {
        load8(v, x + (size_t)row * width + k);
        load8(a, z + (size_t)row * width + k);
        load8(w, g + k % group);
    }
    float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(group_sum(v, group / 8), (float)group), eps)));
    if (k >= padded(width)) return;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = __fmul_rn(__fdiv_rn(a[i], __fadd_rn(1.f, exp_(-a[i]))), __fmul_rn(__fmul_rn(v[i], r), w[i]));
    store8(y, row, k, tile, padded(width), v, scale);
}

// ungated: queries of a gated projection: of each 2*dim values of a row the first dim. dim % 8 == 0.
//
// Launch   grid (ceil(width/1024), rows), block 128; width is y's.
KERNEL(128) ungated(float* y, const float* x, int width, int dim) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k >= width) return;
    float v[8];
    load8(v, x + (size_t)blockIdx.y * 2 * width + k / dim * 2 * dim + k % dim);
#pragma unroll
    for (int i = 0; i < 8; i++) y[(size_t)blockIdx.y * width + k + i] = v[i];
}

// open_gates: y = y * sigmoid(q's gates), y / (1 + exp(-gate)), y an operand, rounded to f16 again; the gates of a head are the last dim of
// each 2*dim values of q.
//
// Launch   grid (ceil(width/1024), rows), block 128.
KERNEL(128) open_gates(half* y, const float* q, int width, int dim, int tile) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8, row = blockIdx.y;
    if (k >= width) return;
    half* at = y + operand_at(row, k, tile, padded(width));
    float v[8], a[8];
    load8(v, at);
    load8(a, q + (size_t)row * 2 * width + k / dim * 2 * dim + dim + k % dim);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = __fdiv_rn(v[i], __fadd_rn(1.f, exp_(-a[i])));
    *(uint4*)at = halves(v);
}
