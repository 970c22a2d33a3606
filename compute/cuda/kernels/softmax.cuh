// The formulas of attention's softmax that every kernel for it shares: attend.cu states the order.
#pragma once
#include "common.cuh"

constexpr float NONE = -INFINITY; // the score of what is not seen, and the maximum of nothing

// base_of is what exponents are taken from: a maximum, or 0 where nothing has been seen.
__device__ __forceinline__ float base_of(float max) { return max == NONE ? 0 : max; }

// quotient is n/d, rounded, of normal numbers whose quotient is one: a division without the branch for others, which takes registers.
__device__ __forceinline__ float quotient(float n, float d) {
    float r;
    asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(r) : "f"(d));
    r = __fmaf_rn(r, __fmaf_rn(-d, r, 1.f), r);
    float q = __fmul_rn(n, r);
    q = __fmaf_rn(r, __fmaf_rn(-d, q, n), q);
    return __fmaf_rn(r, __fmaf_rn(-d, q, n), q);
}

// Bend bends scores towards a cap: bend * tanh(s/bend) = bend - 2*bend / (1 + 2^(s * 2*log2(e)/bend)), each operator rounded; bend is the
// cap over the scores' scale. Where the power is 2^40 or more the quotient is too small to count.
struct Bend {
    float twice, steep, bend;
    __device__ __forceinline__ Bend(float bend_) : twice(__fmul_rn(2.f, bend_)), steep(quotient(2.8853900817779268f, bend_)), bend(bend_) {}
    __device__ __forceinline__ float operator()(float s) const {
        float e = ex2(__fmul_rn(s, steep));
        return __fsub_rn(bend, quotient(twice, __fadd_rn(1.f, e > 0x1p40f ? 0x1p40f : e)));
    }
};

// Merge is how a split, of maximum `split`, joins the total: total*u + split*v.
struct Merge {
    float max, u, v;
    __device__ Merge(float total, float split) {
        max = fmaxf(total, split);
        u = ex2(__fsub_rn(total, base_of(max))), v = ex2(__fsub_rn(split, base_of(max)));
    }
    __device__ float operator()(float total, float split) const { return __fmaf_rn(split, v, __fmul_rn(total, u)); }
};

// closing is what a total's outputs are multiplied by at the end: 1/sum; with a sink, which joins as a split of one score would,
// u / (sum*u + ex2(sink*log2(e) - max)).
__device__ __forceinline__ float closing(float sum, float max, const float* sink) {
    if (!sink) return __frcp_rn(sum);
    Merge to(max, __fmul_rn(*sink, 1.4426950408889634f));
    return __fdiv_rn(to.u, __fmaf_rn(sum, to.u, to.v));
}
