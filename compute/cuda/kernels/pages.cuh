// Pages of the KV cache: 64 positions of one layer and KV head, keys and then values, each a tile that one bulk copy brings.
//
//   f16    keys    [dim/8][64 positions][8 d]         B of q·kᵀ: k is d, n the position; ready for wgmma
//          values  [64/8][dim][8 positions]           B of p·v: k is the position, n is d
//   8-bit  keys    [dim/16][64 positions][16 d]       16 along k in the order 0 1 8 9  2 3 10 11  4 5 12 13  6 7 14 15: four bytes
//          values  [64/16][dim][16 positions]         are what a lane of mma.m16n8k16 holds
//   q8_0   and behind each tile its scales, f16, [ceil(dim/32)][64 positions]: a value is f16(code * scale), codes are stored + 128
//   e4m3   a value is its code's, exactly
//
// The pages of all layers and heads of a position's 64 lie together: [page][layers][heads].
//
// A row's softmax takes pages in ascending order, in splits that begin at fixed positions: every 64 below 1024, every 256
// below 8192, every 1024 from there on. Splits are merged in ascending order.
#pragma once
#include "common.cuh"

constexpr int PAGE = 64;

// F16, Q8_0 and E4M3 are the formats. tile is the bytes of a page's keys, or values. key_pair and value_pair read d, d+1 of a position,
// or positions pos, pos+1 of d (both even) from a tile in any memory, as f16.
struct F16 {
    static __host__ __device__ constexpr int tile(int dim) { return PAGE * dim * 2; }
    static __device__ uint32_t key_pair(const uint8_t* tile, int dim, int d, int pos) { return *(const uint32_t*)(tile + (d / 8 * PAGE + pos) * 16 + d % 8 * 2); }
    static __device__ uint32_t value_pair(const uint8_t* tile, int dim, int pos, int d) { return *(const uint32_t*)(tile + (pos / 8 * dim + d) * 16 + pos % 8 * 2); }
};

// place is where number i of 16 along k lies in an 8-bit tile.
__device__ __forceinline__ int place(int i) { return i % 8 / 2 * 4 + i / 8 * 2 + i % 2; }

struct Q8_0 {
    static __host__ __device__ constexpr int tile(int dim) { return PAGE * dim + scales(dim); }
    static __host__ __device__ constexpr int scales(int dim) { return (dim + 31) / 32 * PAGE * 2; } // bytes
    // codes: the two low bytes as f16.
    static __device__ __forceinline__ half2 codes(uint32_t bytes) {
        uint32_t h = __byte_perm(bytes, 0x64646464u, 0x4140); // 1024 + code
        return __hsub2(*(half2*)&h, __half2half2(__ushort_as_half(0x6480)));
    }
    static __device__ __forceinline__ uint32_t pair(uint32_t bytes, half2 scale) {
        half2 v = __hmul2(codes(bytes), scale);
        return *(uint32_t*)&v;
    }
    static __device__ uint32_t key_pair(const uint8_t* tile, int dim, int d, int pos) {
        half s = *(const half*)(tile + PAGE * dim + (d / 32 * PAGE + pos) * 2);
        return pair(*(const uint16_t*)(tile + (d / 16 * PAGE + pos) * 16 + place(d % 16)), __half2half2(s));
    }
    static __device__ uint32_t value_pair(const uint8_t* tile, int dim, int pos, int d) {
        half2 s = *(const half2*)(tile + PAGE * dim + (d / 32 * PAGE + pos) * 2);
        return pair(*(const uint16_t*)(tile + (pos / 16 * dim + d) * 16 + place(pos % 16)), s);
    }
};

struct E4M3 {
    static __host__ __device__ constexpr int tile(int dim) { return PAGE * dim; }
    static __device__ __forceinline__ uint32_t pair(uint32_t bytes) { // the two low bytes
#if __CUDA_ARCH__ >= 890
        uint32_t h;
        asm("cvt.rn.f16x2.e4m3x2 %0,%1;" : "=r"(h) : "h"((uint16_t)bytes));
        return h;
#else
        uint32_t b = __byte_perm(bytes, 0, 0x1404), h = (b & 0x80008000u) | (b & 0x7f007f00u) >> 1; // the exponent's bias is 8 too small
        half2 v = __hmul2(*(half2*)&h, __half2half2(__ushort_as_half(0x5c00)));
        h = *(uint32_t*)&v;
        return h | ((b & 0x7f00) == 0x7f00 ? 0x7fffu : 0) | ((b & 0x7f000000u) == 0x7f000000u ? 0x7fff0000u : 0);
#endif
    }
    static __device__ uint32_t key_pair(const uint8_t* tile, int dim, int d, int pos) {
        return pair(*(const uint16_t*)(tile + (d / 16 * PAGE + pos) * 16 + place(d % 16)));
    }
    static __device__ uint32_t value_pair(const uint8_t* tile, int dim, int pos, int d) {
        return pair(*(const uint16_t*)(tile + (pos / 16 * dim + d) * 16 + place(pos % 16)));
    }
};

// page_at is where the keys of a page lie; values follow.
template <class F>
__device__ __forceinline__ size_t page_at(int page, int layers, int layer, int heads, int head, int dim) {
    return (((size_t)page * layers + layer) * heads + head) * (2 * F::tile(dim));
}

// EACH_WIDTH(X) is X(D, f16), X(D, q8_0) and X(D, e4m3) for the widths of heads that there are kernels for.
#define EACH_WIDTH(X) EACH_FORMAT(X, 16) EACH_FORMAT(X, 32) EACH_FORMAT(X, 64) EACH_FORMAT(X, 80) EACH_FORMAT(X, 96) EACH_FORMAT(X, 128) EACH_FORMAT(X, 192) EACH_FORMAT(X, 256)
#define EACH_FORMAT(X, D) X(D, f16, F16) X(D, q8_0, Q8_0) X(D, e4m3, E4M3)

// split_ends reports whether a split ends with page p.
__host__ __device__ __forceinline__ bool split_ends(int p) { return p < 16 ? true : p < 128 ? (p & 3) == 3 : (p & 15) == 15; }
