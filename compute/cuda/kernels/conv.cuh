// The causal convolution of eight columns of a row: conv.cu states formula and order, delta.cuh the layout of what is kept.
#pragma once
#include "delta.cuh"
#include "halves.cuh"
#include "mail.cuh"
#include "opened.cuh"

// Chunk is a sequence's rows of a step, and its pages from number `from` on.
struct Chunk {
    const int* order; // the batch's row of each
    int rows, position; // position: of the first
    const int* pages;
    int from;
    __device__ __forceinline__ Chunk(const int* order, int rows, int position, const int* pages, int from)
        : order(order), rows(rows), position(position), pages(pages), from(from) {}
    __device__ __forceinline__ Chunk(const int* order, const ChunkEntry& e)
        : order(order + e.at), rows(e.rows), position(e.position), pages(e.pages), from(e.position / PAGE - 1) {}
    __device__ __forceinline__ int page(int number) const { return pages[number - from]; }
};

// History is a step's rows by sequence and position, and the page tables of their sequences.
struct History {
    const int *order, *sequence, *starts, *positions, *slots, *tables;
    int stride;
    __device__ __forceinline__ Chunk chunk(int s) const {
        int begin = starts[s], row = order[begin];
        return Chunk(order + begin, starts[s + 1] - begin, positions[row], tables + (size_t)slots[row] * stride, 0);
    }
};

// conv_8 is y of a chunk's row i at columns c .. c+7, and keeps its inputs if that is for this thread to do. x may be mail.
__device__ __forceinline__ void conv_8(float (&y)[8], const float* x, const float* w, uint8_t* memory, const Chunk& chunk, const DeltaShape& shape, int i, int c, bool keeps, bool mail) {
    int width = shape.width(), first = chunk.position, position = first + i;
#pragma unroll
    for (int e = 0; e < 8; e++) y[e] = 0;
    int held = first % PAGE ? first / PAGE : first / PAGE - 1; // the page of the rows before this step's
    int place = position % PAGE;
    DeltaPage to(memory, shape, chunk.page(position / PAGE));
#pragma unroll 1
    for (int tap = 0; tap < shape.taps; tap += 4) { // what four taps read is on its way at once
        uint4 in[4];
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int back = shape.taps - 1 - tap - j;
                in[j] = make_uint4(0, 0, 0, 0);
                if (back < 0) continue;
                if (i >= back) {
                    const float* from = x + (size_t)chunk.order[i - back] * width + c;
                    float4 a = get(from), b = get(from + 4);
                    missing |= absent(a) || absent(b);
                    in[j] = make_uint4(half2_bits(a.x, a.y), half2_bits(a.z, a.w), half2_bits(b.x, b.y), half2_bits(b.z, b.w));
                } else if (position - back >= 0) {
                    DeltaPage from(memory, shape, chunk.page(held));
                    in[j] = *(const uint4*)(from.x + (size_t)(position - back - held * PAGE + shape.taps - 1) * width + c);
                }
            }
        } while (mail && missing);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (tap + j >= shape.taps) continue;
            float v[8], f[8];
            load8(f, w + (size_t)(tap + j) * width + c);
            load8(v, (const half*)&in[j]);
#pragma unroll
            for (int e = 0; e < 8; e++) y[e] = __fmaf_rn(f[e], v[e], y[e]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int back = shape.taps - 1 - tap - j;
            if (keeps && to.kept() && (back == 0 || place == 0 && back > 0)) *(uint4*)(to.x + (size_t)(place - back + shape.taps - 1) * width + c) = in[j];
        }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) y[e] = opened(y[e], y[e]);
}
