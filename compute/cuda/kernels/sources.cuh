// Sources: how formats lie in a file, as package quant states them; read once, when a weight is packed.
//
// A coded source gives the code of value j of a block as its layout stores it, and scale and minimum of a group.
#pragma once
#include "layouts.cuh"

__device__ __forceinline__ float half_at(const uint8_t* p) { return __half2float(*(const half*)p); }
__device__ __forceinline__ int nibble(const uint8_t* q, int j) { return j < 16 ? q[j] & 15 : q[j - 16] >> 4; }
__device__ __forceinline__ uint32_t word_at(const uint8_t* p) {
    const uint16_t* h = (const uint16_t*)p; // blocks are aligned to 2 bytes
    return h[0] | (uint32_t)h[1] << 16;
}

struct SourceQ8_0 {
    using Layout = Q8;
    static constexpr int values = 32, bytes = 34;
    static __device__ int code(const uint8_t* b, int j) { return (int8_t)b[2 + j] + 128; }
    static __device__ void scale(const uint8_t* b, int, float& s, float& m) { s = half_at(b); }
};
struct SourceQ4_0 {
    using Layout = Q4;
    static constexpr int values = 32, bytes = 18;
    static __device__ int code(const uint8_t* b, int j) { return nibble(b + 2, j); }
    static __device__ void scale(const uint8_t* b, int, float& s, float& m) { s = half_at(b); }
};
struct SourceQ4_1 {
    using Layout = Q4M;
    static constexpr int values = 32, bytes = 20;
    static __device__ int code(const uint8_t* b, int j) { return nibble(b + 4, j); }
    static __device__ void scale(const uint8_t* b, int, float& s, float& m) { s = half_at(b), m = half_at(b + 2); }
};
struct SourceQ5_0 {
    using Layout = Q5;
    static constexpr int values = 32, bytes = 22;
    static __device__ int code(const uint8_t* b, int j) { return nibble(b + 6, j) | (word_at(b + 2) >> j & 1) << 4; }
    static __device__ void scale(const uint8_t* b, int, float& s, float& m) { s = half_at(b); }
};
struct SourceQ5_1 {
    using Layout = Q5M;
    static constexpr int values = 32, bytes = 24;
    static __device__ int code(const uint8_t* b, int j) { return nibble(b + 8, j) | (word_at(b + 4) >> j & 1) << 4; }
    static __device__ void scale(const uint8_t* b, int, float& s, float& m) { s = half_at(b), m = half_at(b + 2); }
};

// scale_min is the affine scale of group g of a Q4_K or Q5_K block: six bits each, packed in b[4..15].
__device__ __forceinline__ void scale_min(const uint8_t* b, int g, float& s, float& m) {
    const uint8_t* p = b + 4;
    int is = g < 4 ? p[g] & 63 : p[g + 4] & 15 | p[g - 4] >> 6 << 4;
    int im = g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | p[g] >> 6 << 4;
    s = __fmul_rn(half_at(b), (float)is), m = -__fmul_rn(half_at(b + 2), (float)im);
}

struct SourceQ4_K {
    using Layout = Q4M;
    static constexpr int values = 256, bytes = 144;
    static __device__ int code(const uint8_t* b, int j) { return b[16 + 32 * (j / 64) + j % 32] >> (4 * (j / 32 % 2)) & 15; }
    static __device__ void scale(const uint8_t* b, int g, float& s, float& m) { scale_min(b, g, s, m); }
};
struct SourceQ5_K {
    using Layout = Q5M;
    static constexpr int values = 256, bytes = 176;
    static __device__ int code(const uint8_t* b, int j) {
        return b[48 + 32 * (j / 64) + j % 32] >> (4 * (j / 32 % 2)) & 15 | (b[16 + j % 32] >> (j / 32) & 1) << 4;
    }
    static __device__ void scale(const uint8_t* b, int g, float& s, float& m) { scale_min(b, g, s, m); }
};
struct SourceQ6_K {
    using Layout = Q6;
    static constexpr int values = 256, bytes = 210;
    static __device__ int code(const uint8_t* b, int j) {
        int h = j / 128, r = j % 128 / 32, l = j % 32;
        return b[64 * h + 32 * (r % 2) + l] >> (4 * (r / 2)) & 15 | (b[128 + 32 * h + l] >> (2 * r) & 3) << 4;
    }
    static __device__ void scale(const uint8_t* b, int g, float& s, float& m) {
        s = __fmul_rn(half_at(b + 208), (float)(int8_t)b[192 + g]);
    }
};

// A plain source gives values.
struct SourceF16 {
    static constexpr int bytes = 2;
    static __device__ float value(const uint8_t* p) { return half_at(p); }
};
struct SourceBF16 {
    static constexpr int bytes = 2;
    static __device__ float value(const uint8_t* p) { return __int_as_float((int)*(const uint16_t*)p << 16); }
};
struct SourceF32 {
    static constexpr int bytes = 4;
    static __device__ float value(const uint8_t* p) { return *(const float*)p; }
};

#define EACH_CODED(X) \
    X(q8_0, SourceQ8_0) X(q4_0, SourceQ4_0) X(q4_1, SourceQ4_1) X(q5_0, SourceQ5_0) X(q5_1, SourceQ5_1) \
    X(q4_k, SourceQ4_K) X(q5_k, SourceQ5_K) X(q6_k, SourceQ6_K)
#define EACH_PLAIN(X) X(f16, SourceF16) X(bf16, SourceBF16) X(f32, SourceF32)
