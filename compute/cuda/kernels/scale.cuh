// Numbers that all values, or all rows, share: scale.cu states the formulas.
#pragma once
#include "operand.cuh"

__device__ __forceinline__ float scaled(float x, float factor, float cap, float twice) {
    float v = __fmul_rn(x, factor);
    return cap > 0 ? __fsub_rn(cap, __fdiv_rn(__fmul_rn(2.f, cap), __fadd_rn(1.f, exp_(__fmul_rn(v, twice))))) : v;
}

// scale_8 is eight values of a row of any width.
__device__ __forceinline__ void scale_8(float* y, const float* x, int width, float factor, float cap, float twice, int row, int k) {
    size_t at = (size_t)row * width + k;
    for (int i = 0; i < 8 && k + i < width; i++) y[at + i] = scaled(x[at + i], factor, cap, twice);
}

__device__ __forceinline__ void add_bias_8(float* y, const float* bias, int width, int row, int k) {
    if (k >= width) return;
    size_t at = (size_t)row * width + k;
    float v[8], b[8];
    load8(v, y + at);
    load8(b, bias + k);
#pragma unroll
    for (int i = 0; i < 8; i++) y[at + i] = __fadd_rn(v[i], b[i]);
}
