// The matmuls of experts: rows of one expert times two tiles of 64 outputs, by mma.m16n8k16, for up to 8*NT rows at a time.
//
//       K →  segment 0 (512)   segment 1           a warpgroup of SPLIT takes every SPLIT-th segment; its 4 warps own 16 outputs of
//          ┌─────────────────┬─────────────┬─ ─    either tile each, so what is loaded of the rows serves both
//  64 of W │ tile, tile ..   │             │
//          ├─────────────────┼─────────────┼─ ─    tiles of W and 64 of K of the rows pass through a ring in shared memory, by copies
//  64 of W │                 │             │       of 16 bytes, stages ahead
//          └─────────────────┴─────────────┴─ ─
//
// Order    matmul.cu's: a chain over the k16 steps of a segment, from zero, segments added ascending in f32. So a row's products are
//          those of a matmul with the expert's matrix, bit for bit, in any company, by any NT and SPLIT.
// Needs    SPLIT > 1 only with NT = 1; work as sort_routes leaves it, in pieces of at most 8*NT places.
#pragma once
#include "async.cuh"
#include "layouts.cuh"
#include "operand.cuh"

constexpr int SEGMENT_TILES = 8; // of 64 of K

// together waits for the threads of a warpgroup.
__device__ __forceinline__ void together(int group) { asm volatile("bar.sync %0,128;\n" ::"r"(group + 1) : "memory"); }

// A tile's size decides, such that every GPU has the shared memory: how many warpgroups split K where rows are few, and how many stages a
// ring has.
template <class L>
constexpr int FEW_SPLIT = L::bytes <= 2816 ? 4 : L::bytes <= 4352 ? 2 : 1;
template <int SPLIT>
constexpr int RING = SPLIT == 4 ? 3 : 4;

template <class L, int NT>
struct Stage {
    static constexpr int rows = 8 * NT * 128; // 64 of K of the rows: [k/8][row][8]
    static constexpr int bytes = 2 * L::bytes + rows;
};

// Source is where a warpgroup's tiles and rows come from.
struct Source {
    const uint8_t* w[2]; // the two tiles of 64 outputs, at k = 0
    const half* x;       // an operand
    const int* from;     // row of the operand by place; null: the place itself
    int first, count;    // places
    int tile, ktiles;    // of the operand; of K
};

// fetch starts the copies of k tile kt into a stage.
template <class L, int NT>
__device__ __forceinline__ void fetch(uint8_t* stage, const Source& s, int kt, int t) {
#pragma unroll
    for (int m = 0; m < 2; m++)
        for (int i = t; i < L::bytes / 16; i += 128) {
            int strip = i / (L::strip / 16), in = i % (L::strip / 16);
            copy_16(stage + m * L::bytes + 16 * i, s.w[m] + strip_at<L>(strip, kt, s.ktiles) + 16 * in);
        }
    for (int i = t; i < 8 * NT * 8; i += 128) {
        int r = i % (8 * NT), k8 = i / (8 * NT);
        int place = s.first + min(r, s.count - 1); // rows beyond the last are columns of their own: any will do
        int row = s.from ? s.from[place] : place;
        copy_16(stage + 2 * L::bytes + 16 * i, s.x + operand_at(row, kt * 64 + k8 * 8, s.tile, s.ktiles * 64));
    }
}

// multiply_tile continues the chains by one tile of K.
template <class L, int NT>
__device__ __forceinline__ void multiply_tile(float (&c)[2][NT][4], const uint8_t* stage, int t) {
    const uint8_t* x = stage + 2 * L::bytes + t % 32 / 4 * 16 + t % 4 * 4;
    const uint8_t* strip = stage + t / 32 * L::strip;
    L a0(strip, t % 32), a1(strip + L::bytes, t % 32);
#pragma unroll
    for (int ks = 0; ks < 4; ks++) {
        uint32_t f0[4], f1[4];
        a0.fragment(ks, f0);
        a1.fragment(ks, f1);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            uint32_t b0 = *(const uint32_t*)(x + 2 * ks * NT * 128 + j * 128), b1 = *(const uint32_t*)(x + (2 * ks + 1) * NT * 128 + j * 128);
            mma(c[0][j], f0, b0, b1);
            mma(c[1][j], f1, b0, b1);
        }
    }
}

// products gives store(output, row, of tile 0, of tile 1), with output below 64 and row below 8*NT, the sums over K.
template <class L, int NT, int SPLIT, class Store>
__device__ __forceinline__ void products(const Source& s, uint8_t* shared, Store store) {
    static_assert(SPLIT == 1 || NT == 1, "few rows alone split K");
    constexpr int STAGES = RING<SPLIT>;
    int group = threadIdx.x / 128, t = threadIdx.x % 128, g = t % 32 / 4, q = t % 4;
    uint8_t* ring = shared + group * STAGES * Stage<L, NT>::bytes;
    float* sums = (float*)(shared + SPLIT * STAGES * Stage<L, NT>::bytes); // [SPLIT][2][8][64]
    int segments = (s.ktiles + SEGMENT_TILES - 1) / SEGMENT_TILES;
    // This warpgroup's n-th tile, counted over its segments, and how many it has.
    auto tile = [&](int n) { return (group + n / SEGMENT_TILES * SPLIT) * SEGMENT_TILES + n % SEGMENT_TILES; };
    int own = group < segments ? (segments - group + SPLIT - 1) / SPLIT : 0; // segments
    int tiles = own == 0 ? 0 : (own - 1) * SEGMENT_TILES + min(SEGMENT_TILES, s.ktiles - tile((own - 1) * SEGMENT_TILES));
#pragma unroll 1
    for (int n = 0; n < STAGES - 1; n++) {
        if (n < tiles) fetch<L, NT>(ring + n * Stage<L, NT>::bytes, s, tile(n), t);
        copies_end();
    }
    float c[2][NT][4], total[2][NT][4];
    int n = 0;
#pragma unroll 1
    for (int round = 0; round * SPLIT < segments; round++) {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) c[0][j][i] = c[1][j][i] = 0;
#pragma unroll 1
        for (int end = min(tiles, n + SEGMENT_TILES); n < end; n++) {
            copies_wait<STAGES - 2>();
            together(group); // the tile is here for all, and the stage before it is nobody's
            int ahead = n + STAGES - 1;
            if (ahead < tiles) fetch<L, NT>(ring + ahead % STAGES * Stage<L, NT>::bytes, s, tile(ahead), t);
            copies_end();
            multiply_tile<L, NT>(c, ring + n % STAGES * Stage<L, NT>::bytes, t);
        }
        if constexpr (SPLIT == 1) {
#pragma unroll
            for (int j = 0; j < NT; j++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int m = 0; m < 2; m++) total[m][j][i] = round == 0 ? c[m][j][i] : __fadd_rn(total[m][j][i], c[m][j][i]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int m = 0; m < 2; m++) sums[((group * 2 + m) * 8 + 2 * q + i % 2) * 64 + t / 32 * 16 + g + i / 2 * 8] = c[m][0][i];
            __syncthreads();
            // Thread (output, row) of the block adds this round's segments, ascending, to what it has.
#pragma unroll
            for (int at = 0; at < 4 / SPLIT; at++) {
                int pair = threadIdx.x + at * 128 * SPLIT;
#pragma unroll
                for (int m = 0; m < 2; m++)
                    for (int k = 0; k < min(SPLIT, segments - round * SPLIT); k++) {
                        float v = sums[(k * 2 + m) * 512 + pair];
                        total[m][0][at] = round == 0 && k == 0 ? v : __fadd_rn(total[m][0][at], v);
                    }
            }
            __syncthreads();
        }
    }
    if constexpr (SPLIT == 1) {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) store(t / 32 * 16 + g + i / 2 * 8, j * 8 + 2 * q + i % 2, total[0][j][i], total[1][j][i]);
    } else {
#pragma unroll
        for (int at = 0; at < 4 / SPLIT; at++) {
            int pair = threadIdx.x + at * 128 * SPLIT;
            store(pair % 64, pair / 64, total[0][0][at], total[1][0][at]);
        }
    }
}
