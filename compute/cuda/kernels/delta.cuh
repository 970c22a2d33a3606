// What a delta-net layer remembers, page by page, and how a step's rows lie in it: compute/cuda/delta.go fills both.
//
// A layer's part of a page, all layers of a page together:
//
//   s32  [value heads][value columns][key columns] f32   the state as the page began, transposed
//   s16  the same in f16, as the products read it: of 8 value columns and 16 key columns the B operand of mma.m16n8k16, lane after lane,
//        [value heads][value columns/8][key columns/16][32 lanes][4]
//   k    [key heads][64 rows][key columns] f16
//   u    [value heads][value columns][64 rows] f16
//   g    [value heads][64] f32                           sums of decays since the page began
//   x    [taps-1 + 64 rows][columns] f16                 inputs of the convolution, from taps-1 rows before the page on
//
// Rows of a step are sorted by sequence and position: order[i] is the batch's row, sequence[i] its sequence (-1: it has none, and
// stands at the end), starts[s] where sequence s begins. A sequence's positions ascend by one. What a step sends of n rows is one piece:
//
//   chunks [n] ChunkEntry, then order [n], sequence [n], starts [2n], positions [n] and slots [n], int32
#pragma once
#include "operand.cuh"
#include "pages.cuh"

// state_at is where a lane's four halves lie in s16: the tile of 8 value columns is numbered through the heads, that of 16 key columns is j.
__device__ __forceinline__ size_t state_at(int tile, int j, int dim, int lane) { return (((size_t)tile * (dim / 16) + j) * 32 + lane) * 4; }

// ChunkEntry is a sequence's rows of a step, and the pages that few of them touch: those before the first row's, the first row's, and the one after.
// Behind the sequences each row without one has an entry of no rows; then `at` is -1.
struct __align__(16) ChunkEntry {
    int at, rows, position, reserved; // at: its first row, in the step's order; position: of that row
    int pages[3], reserved2;
};

constexpr int CHUNK_INTS = sizeof(ChunkEntry) / 4;

struct DeltaShape {
    int layers, layer, keyHeads, valueHeads, dim, taps;
    __device__ int width() const { return (2 * keyHeads + valueHeads) * dim; }
    __device__ size_t states() const { return (size_t)valueHeads * dim * dim; }
    __device__ size_t bytes() const {
        return 6 * states() + (size_t)2 * PAGE * (keyHeads + valueHeads) * dim + (size_t)4 * PAGE * valueHeads + (size_t)2 * (PAGE + taps - 1) * width();
    }
};

// DeltaPage is a layer's part of a page; null: the page is not kept.
struct DeltaPage {
    float* s32;
    half *s16, *k, *u;
    float* g;
    half* x;
    __device__ DeltaPage(uint8_t* memory, const DeltaShape& d, int page) {
        uint8_t* at = memory + ((size_t)page * d.layers + d.layer) * d.bytes();
        if (page < 0) at = nullptr;
        s32 = (float*)at;
        s16 = (half*)(at + 4 * d.states());
        k = (half*)(at + 6 * d.states());
        u = k + (size_t)PAGE * d.keyHeads * d.dim;
        g = (float*)(u + (size_t)PAGE * d.valueHeads * d.dim);
        x = (half*)(g + (size_t)PAGE * d.valueHeads);
    }
    __device__ bool kept() const { return s32 != nullptr; }
};
