// causal_conv: y = silu(sum_j w[j]*x[row-taps+1+j]) by column; keeps the rows' inputs in their pages.
//
// Order    taps ascending, by fma from zero. Inputs are rounded to f16, those of this step and those that pages hold alike; products and
//          sums are f32. silu is the CPU class's.
// Needs    width % 8 == 0. A row without a sequence gives zeros and keeps nothing. No row reads what another of its step stores.
// Launch   grid (ceil(width/1024), rows), block 128: a thread has eight columns. Formula: compute.Ops.CausalConv. Layout: delta.cuh.
#include "conv.cuh"

KERNEL(128) causal_conv(float* y, const float* x, const float* w, uint8_t* memory, const int* order, const int* sequence, const int* starts,
                        const int* positions, const int* slots, const int* tables, int stride, int layers, int layer, int keyHeads, int valueHeads,
                        int dim, int taps) {
    start();
    DeltaShape shape{layers, layer, keyHeads, valueHeads, dim, taps};
    int width = shape.width(), c = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (c >= width) return;
    History h{order, sequence, starts, positions, slots, tables, stride};
    int i = blockIdx.y, s = sequence[i];
    float v[8] = {};
    if (s >= 0) conv_8(v, x, w, memory, h.chunk(s), shape, i - starts[s], c, true, false);
#pragma unroll
    for (int e = 0; e < 8; e++) y[(size_t)order[i] * width + c + e] = v[e];
}
