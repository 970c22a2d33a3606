// The causal convolution of eight columns of a row: conv.cu states formula and order, delta.cuh the layout of what is kept.
#pragma once
#include "delta.cuh"
#include "halves.cuh"

// History is a step's rows by sequence and position, and the pages of their sequences.
struct History {
    uint8_t* memory;
    const int *order, *sequence, *starts, *positions, *slots, *tables;
    int stride;
};

// conv_8 is y of row order[i] at columns c .. c+7, and keeps its inputs if that is for this thread to do; zeros for a row without a sequence.
__device__ __forceinline__ void conv_8(float (&y)[8], const float* x, const float* w, const History& h, const DeltaShape& shape, int i, int c, bool keeps) {
    int width = shape.width(), row = h.order[i], s = h.sequence[i];
#pragma unroll
    for (int e = 0; e < 8; e++) y[e] = 0;
    if (s < 0) return;
    int begin = h.starts[s], first = h.positions[h.order[begin]], position = h.positions[row];
    const int* table = h.tables + h.slots[row] * h.stride;
    int held = first % PAGE ? first / PAGE : first / PAGE - 1; // the page of the rows before this step's
    int place = position % PAGE;
    DeltaPage to(h.memory, shape, table[position / PAGE]);
#pragma unroll 1
    for (int tap = 0; tap < shape.taps; tap += 4) { // what four taps read is on its way at once
        uint4 in[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int back = shape.taps - 1 - tap - j;
            in[j] = make_uint4(0, 0, 0, 0);
            if (back < 0) continue;
            if (i - back >= begin) {
                float v[8];
                load8(v, x + (size_t)h.order[i - back] * width + c);
                in[j] = halves(v);
            } else if (position - back >= 0) {
                DeltaPage from(h.memory, shape, table[held]);
                in[j] = *(const uint4*)(from.x + (size_t)(position - back - held * PAGE + shape.taps - 1) * width + c);
            }
        }
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
    for (int e = 0; e < 8; e++) y[e] = __fdiv_rn(y[e], __fadd_rn(1.f, exp_(-y[e])));
}
