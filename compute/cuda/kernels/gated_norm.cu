// Norms of groups of a row that are gated, and gates of what attention gave.
//
// A group of W values is W/8 lanes of a warp, eight values each. Order of a sum over a group: eight squares ascending by fma from zero, then a
// butterfly over the lanes: W alone decides it.
#include "gated_norm.cuh"

// gated_norm: y = silu(z) * (g * x / sqrt(mean(x^2) + eps)), the mean over groups of W. y is an operand, times scale, a power of two.
//
// Needs    W = 8, 16, .. 256, width % W == 0. Launch: grid (ceil(padded(width)/1024), rows), block 128. Formula: compute.Ops.GatedNorm.
KERNEL(128) gated_norm(half* y, const float* x, const float* z, const float* g, int width, int group, int tile, float eps, float scale) {
    start();
    gated_norm_8(y, x, z, g, width, group, tile, eps, scale, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8, false);
}

// ungated: queries of a gated projection: of each 2*dim values of a row the first dim. dim % 8 == 0.
//
// Launch   grid (ceil(width/1024), rows), block 128; width is y's.
KERNEL(128) ungated(float* y, const float* x, int width, int dim) {
    start();
    ungated_8(y, x, width, dim, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}

// open_gates: y = y * sigmoid(q's gates), y / (1 + exp(-gate)), y an operand, rounded to f16 again; the gates of a head are the last dim of
// each 2*dim values of q.
//
// Launch   grid (ceil(width/1024), rows), block 128.
KERNEL(128) open_gates(half* y, const float* q, int width, int dim, int tile) {
    start();
    open_gates_8(y, q, width, dim, tile, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}
