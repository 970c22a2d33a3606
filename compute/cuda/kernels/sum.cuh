// Sums and parts of f32 rows, eight values at a time: sum.cu states the formulas. k is a multiple of 8.
#pragma once
#include "operand.cuh"

__device__ __forceinline__ void add_8(float* s, const float* x, const float* y, int width, float scale, int row, int k) {
    if (k >= width) return;
    size_t at = (size_t)row * width + k;
    float a[8], b[8];
    load8(a, x + at);
    load8(b, y + at);
#pragma unroll
    for (int i = 0; i < 8; i++) s[at + i] = __fmul_rn(__fadd_rn(a[i], b[i]), scale);
}

__device__ __forceinline__ void columns_8(float* y, const float* x, int width, int xwidth, int from, int row, int k) {
    if (k >= width) return;
    float v[8];
    load8(v, x + (size_t)row * xwidth + from + k);
#pragma unroll
    for (int i = 0; i < 8; i++) y[(size_t)row * width + k + i] = v[i];
}
