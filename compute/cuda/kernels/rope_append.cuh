// A head's norm and rotation and, of a key, its way into its page: rope.cu and append.cu state their orders.
#pragma once
#include "append.cuh"
#include "rope.cuh"

// RopeAppend is what qk_norm_rope and append_kv have as arguments; k is the keys of both.
struct RopeAppend {
    float *q, *k;
    const int* positions;
    const float *qgain, *kgain, *table;
    int heads, kvHeads, dim, dims, neighbour;
    float eps;
    uint8_t* kv;
    const float* values;
    const int *slots, *tables;
    int stride, layers, layer;

    // head is head h of a row, queries first, by a warp; v is dim floats of shared memory. What is stored comes from them, and from memory the value.
    template <class P>
    __device__ __forceinline__ void head(int row, int h, int lane, float* v) const {
        // All that is needed is asked for before any of it is waited for.
        int slot = slots[row], position = positions[row], page = -1;
        const float* value = values + ((size_t)row * kvHeads + h - heads) * dim;
        auto come = [&](const float* at, int n) {
            if (32 * lane < n) asm volatile("prefetch.global.L1 [%0];" ::"l"(at + 32 * lane));
        };
        come(h < heads ? q + ((size_t)row * heads + h) * dim : k + ((size_t)row * kvHeads + h - heads) * dim, dim);
        if (h >= heads) come(value, dim);
        if (table) come(table + (size_t)position * dims, dims);
        if (h >= heads && slot >= 0) page = tables[(size_t)slot * stride + position / PAGE];
        rope_head(q, k, positions, qgain, kgain, table, heads, kvHeads, dim, dims, neighbour, eps, row, h, lane, v);
        __syncwarp();
        if (page >= 0) append_head<P>(kv, v, value, page, position, layers, layer, dim, h - heads, kvHeads, lane);
    }
};
