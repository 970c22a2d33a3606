// Products with a float32 weight in a step of few rows, as a warp of a program sees them: an output each. matmul_f32.cu states the order.
//
// Few of its loads would be on their way if each waited for the sum before, so eight steps of K and more are loaded before they are multiplied.
#pragma once
#include "halves.cuh"
#include "operand.cuh"

// multiply_f32 is output o of up to R rows of one tile, R a multiple of four: lane 8*part + quad has four of each 32 of K, of every fourth row.
template <int R>
__device__ __forceinline__ void multiply_f32(float* y, const half* x, const float* w, int n, int k, int rows, int tile, float unscale, int o, int lane) {
    constexpr int STEPS = 8;
    const int quad = lane % 8, part = lane / 8;
    const float* weights = w + (size_t)o * k;
    float sum[R / 4][4] = {};
#pragma unroll 1
    for (int from = 4 * quad; from < k; from += 32 * STEPS) {
        float4 v[STEPS];
        uint2 b[STEPS][R / 4];
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            int at = from + 32 * i;
            bool is = at < k;
            v[i] = is ? *(const float4*)(weights + at) : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int r = 0; r < R / 4; r++) b[i][r] = is && 4 * r + part < rows ? *(const uint2*)(x + operand_at(4 * r + part, at, tile, padded(k))) : make_uint2(0, 0);
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            if (from + 32 * i < k)
#pragma unroll
                for (int r = 0; r < R / 4; r++) {
                    float2 low = __half22float2(*(const half2*)&b[i][r].x), high = __half22float2(*(const half2*)&b[i][r].y);
                    float* s = sum[r];
                    s[0] = __fmaf_rn(v[i].x, low.x, s[0]), s[1] = __fmaf_rn(v[i].y, low.y, s[1]);
                    s[2] = __fmaf_rn(v[i].z, high.x, s[2]), s[3] = __fmaf_rn(v[i].w, high.y, s[3]);
                }
    }
#pragma unroll
    for (int r = 0; r < R / 4; r++) {
        float* s = sum[r];
#pragma unroll
        for (int i = 0; i < 4; i++) // sums 16, 8 and 4 apart
#pragma unroll
            for (int step = 4; step > 0; step /= 2) s[i] = __fadd_rn(s[i], __shfl_xor_sync(~0u, s[i], step));
        int row = 4 * r + part;
        if (quad == 0 && row < rows) y[(size_t)row * n + o] = __fmul_rn(__fadd_rn(__fadd_rn(s[0], s[2]), __fadd_rn(s[1], s[3])), unscale);
    }
}

// multiply_f32_row is the same of one row: lane l has sum l.
__device__ __forceinline__ void multiply_f32_row(float* y, const half* x, const float* w, int n, int k, int tile, float unscale, int o, int lane) {
    constexpr int STEPS = 32;
    float sum = 0;
#pragma unroll 1
    for (int from = lane; from < k; from += 32 * STEPS) {
        float v[STEPS];
        half b[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            int at = from + 32 * i;
            v[i] = at < k ? w[(size_t)o * k + at] : 0, b[i] = at < k ? x[operand_at(0, at, tile, padded(k))] : __float2half_rn(0);
        }
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            if (from + 32 * i < k) sum = __fmaf_rn(v[i], __half2float(b[i]), sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) y[o] = __fmul_rn(sum, unscale);
}
