// What kernels of experts share: what becomes of a sum, of a gate and a value, of a row's experts. experts.cu states the formulas.
#pragma once
#include "gate.cuh"

// Bank is the experts' matrices of one kind: each its tiles and its outputs' scales, one expert after another.
struct Bank {
    const uint8_t* tiles;
    const float* scales;
    const float* bias; // null: none

    // tile is where 64 outputs of an expert begin; bytes are a tile's.
    __device__ __forceinline__ const uint8_t* tile(int expert, int n, int ktiles, int at, int bytes) const {
        return tiles + ((size_t)expert * ((n + 63) / 64) + at) * ktiles * bytes;
    }
    // value is a sum as the matmul gives it.
    __device__ __forceinline__ float value(float sum, int expert, int n, int o, float unscale) const {
        float v = __fmul_rn(sum, __fmul_rn(scales[(size_t)expert * n + o], unscale));
        return bias ? __fadd_rn(v, bias[(size_t)expert * n + o]) : v;
    }
};

enum Gating { SWIGLU, GEGLU, CLAMPED };

// least and most keep NaN, which fminf and fmaxf do not.
__device__ __forceinline__ float least(float x, float limit) { return x > limit ? limit : x; }
__device__ __forceinline__ float most(float x, float limit) { return x < limit ? limit : x; }

__device__ __forceinline__ float gated(float g, float u, int gating, float limit) {
    if (gating == GEGLU) return __fmul_rn(Gelu::of(g), u);
    if (gating == CLAMPED) {
        g = __fmul_rn(least(g, limit), 1.702f);
        u = __fmul_rn(__fadd_rn(most(least(u, limit), -limit), 1.f), (float)(1 / 1.702));
    }
    return __fmul_rn(Silu::of(g), u);
}

// add_experts_4 is values k .. k+3 of a row; place and weights are the row's.
template <class Place>
__device__ __forceinline__ void add_experts_4(float* y, const float* d, const Place* place, const float* weights, const float* shared, const float* gate, int width, int chosen,
                                              int row, int k) {
    float4 sum = make_float4(0, 0, 0, 0);
    auto add = [&](const float4& v, float w) { sum.x = __fmaf_rn(v.x, w, sum.x), sum.y = __fmaf_rn(v.y, w, sum.y), sum.z = __fmaf_rn(v.z, w, sum.z), sum.w = __fmaf_rn(v.w, w, sum.w); };
#pragma unroll 8
    for (int j = 0; j < chosen; j++) add(*(const float4*)(d + (size_t)place[j] * width + k), weights[j]);
    if (shared) add(*(const float4*)(shared + (size_t)row * width + k), gate ? __fdiv_rn(1.f, __fadd_rn(1.f, exp_(-gate[row]))) : 1.f);
    *(float4*)(y + (size_t)row * width + k) = sum;
}
