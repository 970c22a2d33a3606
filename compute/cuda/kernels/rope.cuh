// A head's norm and rotation: rope.cu states the order.
#pragma once
#include "common.cuh"

// turn_head is a head of `dim` values in shared memory, by a warp: gain and cs, cosines and sines of its position, may be null.
__device__ __forceinline__ void turn_head(float* v, const float* gain, const float* cs, int dim, int dims, int neighbour, float eps, int lane) {
    if (gain) {
        float sum = 0;
        for (int d = lane; d < dim; d += 32) sum = __fmaf_rn(v[d], v[d], sum);
        float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(warp_sum(sum), (float)dim), eps)));
        for (int d = lane; d < dim; d += 32) v[d] = __fmul_rn(__fmul_rn(v[d], r), gain[d]);
    }
    __syncwarp();
    if (!cs) return;
    int half = dims / 2;
    for (int j = lane; j < half; j += 32) {
        int a = neighbour ? 2 * j : j, b = neighbour ? 2 * j + 1 : j + half;
        float va = v[a], vb = v[b], c = cs[j], s = cs[half + j];
        v[a] = __fsub_rn(__fmul_rn(va, c), __fmul_rn(vb, s));
        v[b] = __fadd_rn(__fmul_rn(va, s), __fmul_rn(vb, c));
    }
    __syncwarp();
}

// rope_head is head h of a row, queries first, by a warp; v is dim floats of shared memory.
__device__ __forceinline__ void rope_head(float* q, float* k, const int* positions, const float* qgain, const float* kgain, const float* table, int heads,
                                          int kvHeads, int dim, int dims, int neighbour, float eps, int row, int h, int lane, float* v) {
    bool query = h < heads;
    float* x = query ? q + ((size_t)row * heads + h) * dim : k + ((size_t)row * kvHeads + h - heads) * dim;
    for (int d = lane; d < dim; d += 32) v[d] = x[d];
    turn_head(v, query ? qgain : kgain, table ? table + (size_t)positions[row] * dims : nullptr, dim, dims, neighbour, eps, lane);
    for (int d = lane; d < dim; d += 32) x[d] = v[d];
}
