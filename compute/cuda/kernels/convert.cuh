// Eight values of a tensor between its two forms: convert.cu says which.
#pragma once
#include "operand.cuh"

__device__ __forceinline__ void to_operand_8(half* y, const float* x, int width, int tile, float scale, int row, int k) {
    float v[8] = {};
    if (k < width) load8(v, x + (size_t)row * width + k);
    store8(y, row, k, tile, padded(width), v, scale);
}

__device__ __forceinline__ void to_rows_8(float* y, const half* x, int width, int tile, float scale, int row, int k) {
    if (k >= width) return;
    const half* in = x + operand_at(row, k, tile, padded(width));
    for (int i = 0; i < 8; i++) y[(size_t)row * width + k + i] = __fmul_rn(__half2float(in[i]), scale);
}

__device__ __forceinline__ void gather_8(half* y, const half* x, const int* rows, int width, int ytile, int xtile, int row, int k) {
    int kpad = padded(width);
    *(uint4*)(y + operand_at(row, k, ytile, kpad)) = *(const uint4*)(x + operand_at(rows[row], k, xtile, kpad));
}
