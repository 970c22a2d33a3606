// An operand is the rows of an activation in f16, tiled for the tensor cores: the B operand of a matmul.
//
//   rows in tiles of T (8, 16, 32, 64 or 128), K padded with zeros to a multiple of 64:
//
//       [row tile][K/8][T rows][8 k]        16 bytes per row and group of 8 k
//
// 64 of K of a tile are T*128 consecutive bytes: one bulk copy, ready for wgmma without swizzle (leading byte offset 16*T,
// stride byte offset 128), and for mma.m16n8k16, whose lane (g, q) reads k 2q, 2q+1 of row g.
// Rows past the last are garbage: they are columns of their own in every product, and nothing stores them.
#pragma once
#include "common.cuh"
#include "mail.cuh"

constexpr int TILE_K = 64;

__host__ __device__ __forceinline__ int padded(int k) { return (k + TILE_K - 1) / TILE_K * TILE_K; }

// operand_at is the index of (row, k) in an operand of tiles of `tile` rows and K padded to kpad.
__device__ __forceinline__ size_t operand_at(int row, int k, int tile, int kpad) {
    return ((size_t)(row / tile) * (kpad / 8) + k / 8) * tile * 8 + (row % tile) * 8 + k % 8;
}

// store8 writes eight values, times a power of two, at k .. k+7 of a row; k is a multiple of 8.
__device__ __forceinline__ void store8(half* x, int row, int k, int tile, int kpad, const float (&v)[8], float scale) {
    uint32_t h[4];
#pragma unroll
    for (int i = 0; i < 4; i++) h[i] = half2_bits(__fmul_rn(v[2 * i], scale), __fmul_rn(v[2 * i + 1], scale));
    put(x + operand_at(row, k, tile, kpad), make_uint4(h[0], h[1], h[2], h[3]));
}

__device__ __forceinline__ void load8(float (&v)[8], const float* p) {
    float4 a = *(const float4*)p, b = *(const float4*)(p + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ __forceinline__ void put8(float* p, const float (&v)[8]) {
    *(float4*)p = make_float4(v[0], v[1], v[2], v[3]), *(float4*)(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
}
