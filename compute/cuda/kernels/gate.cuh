// Gated activations, eight values of a row: gate.cu states the formulas.
#pragma once
#include "operand.cuh"

// Activations are x times the sigmoid of a z.
__device__ __forceinline__ float by_sigmoid(float x, float z) { return __fdiv_rn(x, __fadd_rn(1.f, exp_(-z))); }
struct Silu {
    static __device__ float z(float x) { return x; }
    static __device__ float of(float x) { return by_sigmoid(x, z(x)); }
};
struct Gelu {
    static __device__ float z(float x) {
        float t = __fadd_rn(__fmul_rn(0.044715f, __fmul_rn(x, x)), 1.f);
        return __fmul_rn(__fmul_rn(x, t), 1.5957691216057308f);
    }
    static __device__ float of(float x) { return by_sigmoid(x, z(x)); }
};

// gate_8 is values k .. k+7 of a row; k < padded(width). g and u may be mail.
template <class Act>
__device__ __forceinline__ void gate_8(half* y, const float* g, const float* u, int width, int tile, float scale, int row, int k, bool mail) {
    float v[2][8] = {};
    if (k < width) {
        receive(v, {g + (size_t)row * width + k, u + (size_t)row * width + k}, mail);
#pragma unroll
        for (int i = 0; i < 8; i++) v[0][i] = __fmul_rn(Act::of(v[0][i]), v[1][i]);
    }
    store8(y, row, k, tile, padded(width), v[0], scale);
}
