// What the two fast kernels of attention share: their work and their partial results.
//
// A tile is up to M (row, query head) pairs of one sequence and KV head: rows next to each other in the sequence times the heads of
// the group. Its splits are one piece of work, or several: then each writes partial results, and the last to arrive merges.
//
//   work   pages        entries of the tile's partial results (here splits end after pages 0, 1, .. 15, 19, ..)
//    0     0 .. 11      0             the first work merges its own splits: in the order there is, the result is the total so far
//    1     12 .. 19     1 2 3 4 5     the others write one entry a split
//    2     20 .. 27     6 7
//
// An entry, for one tile and KV head: M maxima, M sums, [M][D] outputs, in f32.
#pragma once
#include "bulk.cuh"
#include "operand.cuh"
#include "pages.cuh"
#include "softmax.cuh"

// Work is one block's, for each KV head; attention.go makes it. rows == 0: none.
struct __align__(16) Work {
    int slot, at, rows;   // rows at .. at+rows-1 of `order`, all of one slot; slot -1: they give zeros
    int first, end;       // pages
    int fresh;            // of few rows: the first page that this step writes
    int base, entry;      // of the tile's entries among all; the first that this work writes
    int total;            // entries of the tile; 1: this work is all there is
    int begin;            // where the slot's rows begin in `order`
    int unused[2];
};

__device__ __forceinline__ Work load_work(const Work* w) {
    Work k;
    const int4* from = (const int4*)w;
    int4* to = (int4*)&k;
    to[0] = from[0], to[1] = from[1], to[2] = from[2];
    return k;
}

// Member is one pair of a tile as a thread sees it: a row of the batch, its position, and what its window begins with.
struct Member {
    int row, head, pos, from; // head: of the KV head's group; pos -1: the tile has no such pair
};

// member is number m of a tile: head m/rows, row m%rows.
__device__ __forceinline__ Member member(const Work& k, const int2* order, int m, int heads, int window) {
    if (m >= heads * k.rows) return {0, 0, -1, 0};
    int2 r = order[k.at + m % k.rows];
    return {r.x, m / k.rows, r.y, window > 0 ? max(0, r.y + 1 - window) : 0};
}

// entry_at is where the entry of a block's tile lies; a block is a KV head (and, of few rows, 16 heads of its group).
template <int M, int D>
__device__ __forceinline__ float* entry_at(float* partials, int entry, int block, int blocks) {
    return partials + ((size_t)entry * blocks + block) * (M * (D + 2));
}

// arrived counts the entries that a tile's works have written, and reports to the last, then begins anew. One thread calls it, after a
// barrier behind the writes.
__device__ __forceinline__ bool arrived(int* counter, int entries, int total) {
    __threadfence();
    if (atomicAdd(counter, entries) + entries < total) return false;
    *counter = 0;
    __threadfence();
    return true;
}

// store_pair writes two values of the output operand.
__device__ __forceinline__ void store_pair(half* out, const Member& m, int column, int tile, int kpad, float a, float b) {
    put((uint32_t*)(out + operand_at(m.row, column, tile, kpad)), half2_bits(a, b));
}

// store_zeros writes columns from .. to-1 of the work's rows.
__device__ __forceinline__ void store_zeros(half* out, const Work& k, const int2* order, int from, int to, int tile, int kpad, int t, int threads) {
    for (int i = t; i < k.rows * (to - from) / 8; i += threads)
        put(out + operand_at(order[k.at + i % k.rows].x, from + i / k.rows * 8, tile, kpad), make_uint4(0, 0, 0, 0));
}
