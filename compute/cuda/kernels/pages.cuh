// Pages of the KV cache: 64 positions of one layer and KV head, keys and then values, each a wgmma-ready tile of f16.
//
//   keys    [dim/8][64 positions][8 d]      B of q·kᵀ: k is d, n the position
//   values  [64/8][dim][8 positions]        B of p·v: k is the position, n is d
//
// A page lies at ((page*layers + layer)*heads + head) * 2*64*dim halves: one bulk copy brings it.
//
// A row's softmax takes pages in ascending order, in splits that begin at fixed positions: every 64 below 1024, every 256
// below 8192, every 1024 from there on. Splits are merged in ascending order.
#pragma once
#include "common.cuh"

constexpr int PAGE = 64;

__device__ __forceinline__ size_t page_at(int page, int layers, int layer, int heads, int head, int dim) {
    return (((size_t)page * layers + layer) * heads + head) * (2 * PAGE) * dim;
}

// split_ends reports whether a split ends with page p; split_first is the first page of split s; split_of is page p's split.
__host__ __device__ __forceinline__ bool split_ends(int p) { return p < 16 ? true : p < 128 ? (p & 3) == 3 : (p & 15) == 15; }
__host__ __device__ __forceinline__ int split_first(int s) { return s < 16 ? s : s < 44 ? 16 + (s - 16) * 4 : 128 + (s - 44) * 16; }
__host__ __device__ __forceinline__ int split_of(int p) { return p < 16 ? p : p < 128 ? 16 + (p - 16) / 4 : 44 + (p - 128) / 16; }
