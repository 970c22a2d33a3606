// qk_norm_rope: each head of q and k, in place: a root mean square norm where there is a gain, then turned by its position.
//
// Order    lane l of a warp sums the squares of d = l, l+32, .. by fma; lanes by a butterfly. Rotation: products rounded, then
//          the sum, by a table of float64 rounded once (compute.Rope.Table), [position][cos | sin][dims/2].
// Needs    head width at most 512. qgain, kgain, table may be null: no norm, no turn.
// Launch   grid (rows, ceil((heads+kvHeads)/8)), block 256: a warp a head. Formula: compute.Ops.QKNormRope.
//
// rope_append_FORMAT: the same, and append_kv_FORMAT of the keys that were turned.
#include "rope_append.cuh"

KERNEL(256) qk_norm_rope(float* q, float* k, const int* positions, const float* qgain, const float* kgain, const float* table,
                         int heads, int kvHeads, int dim, int dims, int neighbour, float eps) {
    start();
    __shared__ float values[8][512];
    int h = blockIdx.y * 8 + threadIdx.x / 32;
    if (h < heads + kvHeads)
        rope_head(q, k, positions, qgain, kgain, table, heads, kvHeads, dim, dims, neighbour, eps, blockIdx.x, h, threadIdx.x % 32, values[threadIdx.x / 32]);
}

#define ROPE_APPEND(name, P)                                                                                                                             \
    KERNEL(256) rope_append_##name(float* q, float* k, const int* positions, const float* qgain, const float* kgain, const float* table, int heads,        \
                                   int kvHeads, int dim, int dims, int neighbour, float eps, uint8_t* kv, const float* v, const int* slots,                \
                                   const int* tables, int stride, int layers, int layer) {                                                               \
        start();                                                                                                                                         \
        __shared__ float values[8][512];                                                                                                                 \
        int h = blockIdx.y * 8 + threadIdx.x / 32;                                                                                                       \
        const RopeAppend r{q, k, positions, qgain, kgain, table, heads, kvHeads, dim, dims, neighbour, eps, kv, v, slots, tables, stride, layers, layer}; \
        if (h < heads + kvHeads) r.head<P>(blockIdx.x, h, threadIdx.x % 32, values[threadIdx.x / 32]);                                                   \
    }
ROPE_APPEND(f16, PutF16)
ROPE_APPEND(q8_0, PutQ8_0)
ROPE_APPEND(e4m3, PutE4M3)
