// causal_conv: y = silu(sum_j w[j]*x[row-taps+1+j]) by column; keeps the rows' inputs in their pages.
//
// Order    taps ascending, by fma from zero. Inputs are rounded to f16, those of this step and those that pages hold alike; products and
//          sums are f32. silu is the CPU class's.
// Needs    width % 8 == 0. A row without a sequence gives zeros and keeps nothing. No row reads what another of its step stores.
// Launch   grid (ceil(width/1024), rows), block 128: a thread has eight columns. Formula: compute.Ops.CausalConv. Layout: delta.cuh.
#include "delta.cuh"
#include "halves.cuh"

KERNEL(128) causal_conv(float* y, const float* x, const float* w, uint8_t* memory, const int* order, const int* sequence, const int* starts,
                        const int* positions, const int* slots, const int* tables, int stride, int layers, int layer, int keyHeads, int valueHeads,
                        int dim, int taps) {
    start();
    DeltaShape shape{layers, layer, keyHeads, valueHeads, dim, taps};
    int width = shape.width(), c = (blockIdx.x * 128 + threadIdx.x) * 8, i = blockIdx.y;
    if (c >= width) return;
    int row = order[i], s = sequence[i];
    float sum[8] = {};
    if (s >= 0) {
        int begin = starts[s], first = positions[order[begin]], position = positions[row];
        const int* table = tables + slots[row] * stride;
        int held = first % PAGE ? first / PAGE : first / PAGE - 1; // the page of the rows before this step's
        int place = position % PAGE, number = table[position / PAGE];
        DeltaPage to(memory, shape, number);
        for (int j = 0; j < taps; j++) {
            int back = taps - 1 - j;
            float v[8] = {};
            if (i - back >= begin) {
                load8(v, x + (size_t)order[i - back] * width + c);
#pragma unroll
                for (int e = 0; e < 8; e++) v[e] = __half2float(__float2half_rn(v[e]));
            } else if (position - back >= 0) {
                DeltaPage from(memory, shape, table[held]);
                load8(v, from.x + (size_t)(position - back - held * PAGE + taps - 1) * width + c);
            }
            if (to.kept() && (back == 0 || place == 0)) *(uint4*)(to.x + (size_t)(place - back + taps - 1) * width + c) = halves(v);
            float f[8];
            load8(f, w + (size_t)j * width + c);
#pragma unroll
            for (int e = 0; e < 8; e++) sum[e] = __fmaf_rn(f[e], v[e], sum[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < 8; e++) y[(size_t)row * width + c + e] = __fdiv_rn(sum[e], __fadd_rn(1.f, exp_(-sum[e])));
}
