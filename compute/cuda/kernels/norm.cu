// add_norm: s = x + y; n = g * s / sqrt(mean(s^2) + eps), n as f32 rows, as an operand, or both.
//
// Order    thread t of 256 sums the squares of k = 8t..8t+7, then 2048 on, ascending, by fma; lanes by a butterfly; the eight
//          warps ascending. Width alone decides it. n is (s*r)*g, r = 1/sqrt(sum/width + eps), each operator rounded.
// Needs    width % 8 == 0. y may be null: s = x. s may be null without y, and may be x. rows or operand may be null.
// Launch   grid rows, block 256. Formula: compute.Ops.AddNorm. The operand holds n*scale, a power of two.
#include "norm.cuh"

KERNEL(256) add_norm(float* s, float* rows, half* operand, const float* x, const float* y, const float* g, int width, int tile,
                     float eps, float scale) {
    start();
    __shared__ float part[8];
    norm_row(s, rows, operand, x, y, g, width, tile, eps, scale, blockIdx.x, threadIdx.x, part, false);
}
