// add_norm: s = x + y; n = g * s / sqrt(mean(s^2) + eps), n as f32 rows, as an operand, or both.
//
// Order    thread t of 256 sums the squares of k = 8t..8t+7, then 2048 on, ascending, by fma; lanes by a butterfly; the eight
//          warps ascending. Width alone decides it. n is (s*r)*g, r = 1/sqrt(sum/width + eps), each operator rounded.
// Needs    width % 8 == 0. y may be null: s = x. s may be null without y, and may be x. rows or operand may be null.
// Launch   grid rows, block 256. Formula: compute.Ops.AddNorm. The operand holds n*scale, a power of two.
#include "operand.cuh"

KERNEL(256) add_norm(float* s, float* rows, half* operand, const float* x, const float* y, const float* g, int width, int tile,
                     float eps, float scale) {
    start();
    __shared__ float part[8];
    int row = blockIdx.x, t = threadIdx.x, kpad = padded(width);
    const float* in = x + (size_t)row * width;
    float sum = 0;
    for (int k = 8 * t; k < width; k += 2048) {
        float v[8], w[8];
        load8(v, in + k);
        if (y) {
            load8(w, y + (size_t)row * width + k);
#pragma unroll
            for (int i = 0; i < 8; i++) s[(size_t)row * width + k + i] = v[i] = __fadd_rn(v[i], w[i]);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) sum = __fmaf_rn(v[i], v[i], sum);
    }
    sum = warp_sum(sum);
    if (t % 32 == 0) part[t / 32] = sum;
    __syncthreads();
    sum = part[0];
    for (int i = 1; i < 8; i++) sum = __fadd_rn(sum, part[i]);
    float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(sum, (float)width), eps)));
    if (y) in = s + (size_t)row * width;
    for (int k = 8 * t; k < kpad; k += 2048) {
        float v[8] = {}, w[8];
        if (k < width) {
            load8(v, in + k);
            load8(w, g + k);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                v[i] = __fmul_rn(__fmul_rn(v[i], r), w[i]);
                if (rows) rows[(size_t)row * width + k + i] = v[i];
            }
        }
        if (operand) store8(operand, row, k, tile, kpad, v, scale);
    }
}
