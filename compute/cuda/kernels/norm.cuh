// The sum of two rows and its root mean square norm: norm.cu states the order.
#pragma once
#include "operand.cuh"

// norm_row is one row's, by 256 threads; part is 8 floats of shared memory.
__device__ __forceinline__ void norm_row(float* s, float* rows, half* operand, const float* x, const float* y, const float* g, int width, int tile,
                                         float eps, float scale, int row, int t, float* part) {
    int kpad = padded(width);
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
    meet<256>();
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
