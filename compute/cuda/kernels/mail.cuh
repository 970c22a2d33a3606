// Mail: values that blocks send each other through memory without having met. Each says by itself whether it has come: what has not is ABSENT.
// Nothing else is read with it, so nobody needs a fence, and who waits for some of the values does not wait for the others.
//
// Order    memory is made ABSENT when all have read what was there before, and nobody writes or reads it until others know that.
#pragma once
#include "common.cuh"

constexpr uint32_t ABSENT = 0xffffffff; // a NaN, or two of f16; arithmetic yields 0x7fffffff and 0x7fff

__device__ __forceinline__ void put(float* to, float a, float b, float c, float d) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0],{%1,%2,%3,%4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
__device__ __forceinline__ void put(void* to, uint4 v) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void put(float* to, float v) { asm volatile("st.relaxed.gpu.global.f32 [%0],%1;" ::"l"(to), "f"(v) : "memory"); }
__device__ __forceinline__ void put(float* to, float a, float b) { asm volatile("st.relaxed.gpu.global.v2.f32 [%0],{%1,%2};" ::"l"(to), "f"(a), "f"(b) : "memory"); }
__device__ __forceinline__ void put(half* to, half v) { asm volatile("st.relaxed.gpu.global.u16 [%0],%1;" ::"l"(to), "h"(__half_as_ushort(v)) : "memory"); }
__device__ __forceinline__ void put(uint32_t* to, uint32_t v) { asm volatile("st.relaxed.gpu.global.u32 [%0],%1;" ::"l"(to), "r"(v) : "memory"); }

__device__ __forceinline__ float4 get(const float* from) {
    float4 v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ uint4 get_halves(const half* from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ float get_one(const float* from) {
    float v;
    asm volatile("ld.relaxed.gpu.global.f32 %0,[%1];" : "=f"(v) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ uint32_t get_pair(const void* from) { // of halves
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ uint2 get_pairs(const half* from) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1},[%2];" : "=r"(v.x), "=r"(v.y) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ uint16_t get_half(const half* from) {
    uint16_t v;
    asm volatile("ld.relaxed.gpu.global.u16 %0,[%1];" : "=h"(v) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ float2 get_two(const float* from) {
    float2 v;
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0,%1},[%2];" : "=f"(v.x), "=f"(v.y) : "l"(from) : "memory");
    return v;
}

__device__ __forceinline__ bool absent(float v) { return __float_as_uint(v) == ABSENT; }
__device__ __forceinline__ bool absent(float2 v) { return absent(v.x) || absent(v.y); }
__device__ __forceinline__ bool absent(float4 v) {
    return __float_as_uint(v.x) == ABSENT || __float_as_uint(v.y) == ABSENT || __float_as_uint(v.z) == ABSENT || __float_as_uint(v.w) == ABSENT;
}
// The same of pairs of halves. Of many pairs most() keeps what tells.
__device__ __forceinline__ bool absent_half(uint32_t v) { return v >= 0xffff0000u || (v & 0xffff) == 0xffff; }
__device__ __forceinline__ uint32_t most(uint32_t a, uint32_t b) { return __vmaxu2(a, b); }
__device__ __forceinline__ uint32_t most(uint4 v) { return most(most(v.x, v.y), most(v.z, v.w)); }

// receive gives eight floats from each of N places, of mail when they have come, and receive_one one. All are asked for at once.
template <int N>
__device__ __forceinline__ void receive(float (&v)[N][8], const float* const (&from)[N], bool mail) {
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int i = 0; i < N; i++) {
            float4 a = get(from[i]), b = get(from[i] + 4);
            v[i][0] = a.x, v[i][1] = a.y, v[i][2] = a.z, v[i][3] = a.w, v[i][4] = b.x, v[i][5] = b.y, v[i][6] = b.z, v[i][7] = b.w;
            missing |= absent(a) || absent(b);
        }
    } while (mail && missing);
}
__device__ __forceinline__ float receive_one(const float* from, bool mail) {
    float v;
    do v = get_one(from);
    while (mail && absent(v));
    return v;
}

// receive8 gives eight floats from each of N places, `step` apart, of those before `end`, when they have come. All are asked for at once.
template <int N>
__device__ __forceinline__ void receive8(float (&v)[N][8], const float* from, int at, int step, int end) {
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (int k = at + i * step; k < end) {
                float4 a = get(from + k), b = get(from + k + 4);
                v[i][0] = a.x, v[i][1] = a.y, v[i][2] = a.z, v[i][3] = a.w, v[i][4] = b.x, v[i][5] = b.y, v[i][6] = b.z, v[i][7] = b.w;
                missing |= absent(a) || absent(b);
            }
    } while (missing);
}

// receive_row brings n floats to shared memory, a multiple of 4 and at most 512; a warp.
__device__ __forceinline__ void receive_row(float* to, const float* from, int n, int lane) {
    float4 v[4];
    bool missing;
    do {
        missing = false;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (int k = 4 * (lane + 32 * i); k < n) v[i] = get(from + k), missing |= absent(v[i]);
    } while (missing);
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (int k = 4 * (lane + 32 * i); k < n) *(float4*)(to + k) = v[i];
}
