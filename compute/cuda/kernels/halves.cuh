// Eight halves at once.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void load8(float (&v)[8], const half* p) {
    uint4 h = *(const uint4*)p;
    const half2* pairs = (const half2*)&h;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(pairs[i]);
        v[2 * i] = f.x, v[2 * i + 1] = f.y;
    }
}

__device__ __forceinline__ uint4 halves(const float (&v)[8]) {
    return make_uint4(half2_bits(v[0], v[1]), half2_bits(v[2], v[3]), half2_bits(v[4], v[5]), half2_bits(v[6], v[7]));
}
