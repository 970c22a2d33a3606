// The sum of two rows and its root mean square norm: norm.cu states the order.
#pragma once
#include "operand.cuh"

// norm_row is one row's, by 256 threads; part is 8 floats of shared memory. The first KEPT chunks of a row stay in registers, with all
// loads on their way at once; what lies beyond is read again. If it is mail, y is, or without it x.
__device__ __forceinline__ void norm_row(float* s, float* rows, half* operand, const float* x, const float* y, const float* g, int width, int tile,
                                         float eps, float scale, int row, int t, float* part, bool mail) {
    constexpr int KEPT = 2, CHUNK = 2048;
    int kpad = padded(width);
    size_t at = (size_t)row * width;
    float kept[KEPT][8] = {}, added[KEPT][8] = {}, gain[KEPT][8] = {};
#pragma unroll
    for (int c = 0; c < KEPT; c++)
        if (int k = c * CHUNK + 8 * t; k < width) {
            load8(gain[c], g + k);
            if (y || !mail) load8(kept[c], x + at + k);
            if (y && !mail) load8(added[c], y + at + k);
        }
    if (mail && y) receive8(added, y + at, 8 * t, CHUNK, width);
    else if (mail) receive8(kept, x + at, 8 * t, CHUNK, width);
    auto more = [&](float (&v)[8], const float* from, int k, bool mail) { // beyond those that are kept
        float one[1][8];
        if (!mail) return load8(v, from + at + k);
        receive8(one, from + at, k, 0, width);
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = one[0][i];
    };
    auto add = [&](float (&v)[8], const float (&w)[8], int k) {
        if (!y) return;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = __fadd_rn(v[i], w[i]);
        put8(s + at + k, v);
    };
    auto squares = [](float sum, const float (&v)[8]) {
#pragma unroll
        for (int i = 0; i < 8; i++) sum = __fmaf_rn(v[i], v[i], sum);
        return sum;
    };
    float sum = 0;
#pragma unroll
    for (int c = 0; c < KEPT; c++)
        if (int k = c * CHUNK + 8 * t; k < width) add(kept[c], added[c], k), sum = squares(sum, kept[c]);
    for (int k = KEPT * CHUNK + 8 * t; k < width; k += CHUNK) {
        float v[8], w[8] = {};
        more(v, x, k, mail && !y);
        if (y) more(w, y, k, mail);
        add(v, w, k), sum = squares(sum, v);
    }
    sum = warp_sum(sum);
    if (t % 32 == 0) part[t / 32] = sum;
    meet<256>();
    sum = part[0];
    for (int i = 1; i < 8; i++) sum = __fadd_rn(sum, part[i]);
    float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(sum, (float)width), eps)));
    auto store = [&](float (&v)[8], const float (&w)[8], int k) {
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = k < width ? __fmul_rn(__fmul_rn(v[i], r), w[i]) : 0;
        if (rows && k < width) put8(rows + at + k, v);
        if (operand) store8(operand, row, k, tile, kpad, v, scale);
    };
#pragma unroll
    for (int c = 0; c < KEPT; c++)
        if (int k = c * CHUNK + 8 * t; k < kpad) store(kept[c], gain[c], k);
    const float* in = y ? s : x;
    for (int k = KEPT * CHUNK + 8 * t; k < kpad; k += CHUNK) {
        float v[8] = {}, w[8] = {};
        if (k < width) more(v, in, k, mail && !y), load8(w, g + k);
        store(v, w, k);
    }
}
