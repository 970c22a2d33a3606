// Products with a float32 weight in a step of few rows, as a warp of a program sees them: an output each, of up to four rows. matmul_f32.cu states
// the order.
//
// Few of its loads would be on their way if each waited for the sum before, so several steps of K are loaded before any is multiplied.
// x may be mail.
#pragma once
#include "halves.cuh"
#include "operand.cuh"

// multiply_f32 is output o of rows row0 .. row0+3, of those that there are: lane 8*part + quad has four of each 32 of K, of row row0 + part.
__device__ __forceinline__ void multiply_f32(float* y, const half* x, const float* w, int n, int k, int rows, int tile, float unscale, int o, int row0, bool mail, int lane) {
    constexpr int STEPS = 4;
    const int quad = lane % 8, row = row0 + lane / 8;
    const float* weights = w + (size_t)o * k;
    const bool wanted = row < rows;
    float s[4] = {};
#pragma unroll 1
    for (int from = 4 * quad; from < k; from += 32 * STEPS) {
        float4 v[STEPS];
        uint2 b[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++) v[i] = from + 32 * i < k ? *(const float4*)(weights + from + 32 * i) : make_float4(0, 0, 0, 0);
        uint32_t last;
        do {
            last = 0;
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                b[i] = wanted && from + 32 * i < k ? get_pairs(x + operand_at(row, from + 32 * i, tile, padded(k))) : make_uint2(0, 0);
                last = most(last, most(b[i].x, b[i].y));
            }
        } while (mail && absent_half(last));
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            if (from + 32 * i < k) {
                float2 low = __half22float2(*(const half2*)&b[i].x), high = __half22float2(*(const half2*)&b[i].y);
                s[0] = __fmaf_rn(v[i].x, low.x, s[0]), s[1] = __fmaf_rn(v[i].y, low.y, s[1]);
                s[2] = __fmaf_rn(v[i].z, high.x, s[2]), s[3] = __fmaf_rn(v[i].w, high.y, s[3]);
            }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) // sums 16, 8 and 4 apart
#pragma unroll
        for (int step = 4; step > 0; step /= 2) s[i] = __fadd_rn(s[i], __shfl_xor_sync(~0u, s[i], step));
    if (quad == 0 && wanted) put(y + (size_t)row * n + o, __fmul_rn(__fadd_rn(__fadd_rn(s[0], s[2]), __fadd_rn(s[1], s[3])), unscale));
}

// multiply_f32_row is the same of one row: lane l has sum l.
__device__ __forceinline__ void multiply_f32_row(float* y, const half* x, const float* w, int n, int k, int tile, float unscale, int o, bool mail, int lane) {
    constexpr int STEPS = 16;
    float sum = 0;
#pragma unroll 1
    for (int from = lane; from < k; from += 32 * STEPS) {
        float v[STEPS];
        uint16_t b[STEPS];
#pragma unroll
        for (int i = 0; i < STEPS; i++) v[i] = from + 32 * i < k ? w[(size_t)o * k + from + 32 * i] : 0;
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                b[i] = from + 32 * i < k ? get_half(x + operand_at(0, from + 32 * i, tile, padded(k))) : 0;
                missing |= b[i] == 0xffff;
            }
        } while (mail && missing);
#pragma unroll
        for (int i = 0; i < STEPS; i++)
            if (from + 32 * i < k) sum = __fmaf_rn(v[i], __half2float(__ushort_as_half(b[i])), sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) put(y + o, __fmul_rn(sum, unscale));
}
