// append_kv_FORMAT: stores the rows' keys and values at their positions. Rows of slot -1 store nothing.
//
// Rounding f16: nearest. q8_0: per 32 of a head, scale = max|x|/127 rounded up to f16 (down, where 127 of it would overflow), codes
//          nearest of x/scale. e4m3: nearest, at most 448.
//
// A head whose key or value is not finite in f16 stores NaN as its key and zeros as its value: whoever attends to that position
// gets NaN, and who does not (its weight is 0, and 0*NaN would be NaN) is untouched.
//
// Needs    dim % 16 == 0; tables [slots][stride], the page of each 64 positions.
// Launch   grid (rows, kvHeads), block 32. Layout: pages.cuh.
#include "append.cuh"

#define APPEND(name, P)                                                                                                           \
    KERNEL(32) append_kv_##name(uint8_t* kv, const float* k, const float* v, const int* positions, const int* slots, const int* tables, \
                                int stride, int layers, int layer, int dim) {                                                     \
        start();                                                                                                                  \
        int row = blockIdx.x, slot = slots[row], pos = positions[row];                                                            \
        size_t at = ((size_t)row * gridDim.y + blockIdx.y) * dim;                                                                 \
        if (slot >= 0)                                                                                                            \
            append_head<P>(kv, k + at, v + at, tables[(size_t)slot * stride + pos / PAGE], pos, layers, layer, dim, blockIdx.y, gridDim.y, threadIdx.x); \
    }
APPEND(f16, PutF16)
APPEND(q8_0, PutQ8_0)
APPEND(e4m3, PutE4M3)
