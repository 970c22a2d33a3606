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

// conv_8 is y of row order[i] at columns c .. c+7, and keeps its inputs; zeros for a row without a sequence.
__device__ __forceinline__ void conv_8(float (&y)[8], const float* x, const float* w, const History& h, const DeltaShape& shape, int i, int c) {
    int width = shape.width(), row = h.order[i], s = h.sequence[i];
#pragma unroll
    for (int e = 0; e < 8; e++) y[e] = 0;
    if (s < 0) return;
    int begin = h.starts[s], first = h.positions[h.order[begin]], position = h.positions[row];
    const int* table = h.tables + h.slots[row] * h.stride;
    int held = first % PAGE ? first / PAGE : first / PAGE - 1; // the page of the rows before this step's
    int place = position % PAGE;
    DeltaPage to(h.memory, shape, table[position / PAGE]);
    for (int j = 0; j < shape.taps; j++) {
        int back = shape.taps - 1 - j;
        float v[8] = {}, f[8];
        if (i - back >= begin) {
            load8(v, x + (size_t)h.order[i - back] * width + c);
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] = __half2float(__float2half_rn(v[e]));
        } else if (position - back >= 0) {
            DeltaPage from(h.memory, shape, table[held]);
            load8(v, from.x + (size_t)(position - back - held * PAGE + shape.taps - 1) * width + c);
        }
        if (to.kept() && (back == 0 || place == 0)) *(uint4*)(to.x + (size_t)(place - back + shape.taps - 1) * width + c) = halves(v);
        load8(f, w + (size_t)j * width + c);
#pragma unroll
        for (int e = 0; e < 8; e++) y[e] = __fmaf_rn(f[e], v[e], y[e]);
    }
#pragma unroll
    for (int e = 0; e < 8; e++) y[e] = __fdiv_rn(y[e], __fadd_rn(1.f, exp_(-y[e])));
}
