// append_kv: stores the rows' keys and values, rounded to f16, at their positions. Rows of slot -1 store nothing.
//
// A head whose key or value is not finite in f16 stores NaN as its key and zeros as its value: whoever attends to that position
// gets NaN, and who does not (its weight is 0, and 0*NaN would be NaN) is untouched.
//
// Needs    dim % 8 == 0; tables [slots][stride], the page of each 64 positions.
// Launch   grid (rows, kvHeads), block 32. Layout: pages.cuh.
#include "pages.cuh"

KERNEL(32) append_kv(half* kv, const float* k, const float* v, const int* positions, const int* slots, const int* tables,
                     int stride, int layers, int layer, int dim) {
    start();
    int row = blockIdx.x, head = blockIdx.y, heads = gridDim.y, slot = slots[row];
    if (slot < 0) return;
    int pos = positions[row], place = pos % PAGE;
    half* keys = kv + page_at(tables[(size_t)slot * stride + pos / PAGE], layers, layer, heads, head, dim);
    half* values = keys + PAGE * dim;
    size_t from = ((size_t)row * heads + head) * dim;
    bool finite = true;
    for (int d = threadIdx.x; d < dim; d += 32)
        finite &= !__hisinf(__float2half_rn(k[from + d])) && !__hisinf(__float2half_rn(v[from + d])) && k[from + d] == k[from + d] && v[from + d] == v[from + d];
    finite = __all_sync(~0u, finite);
    for (int d = threadIdx.x; d < dim; d += 32) {
        keys[(d / 8 * PAGE + place) * 8 + d % 8] = finite ? __float2half_rn(k[from + d]) : __ushort_as_half(0x7fff);
        values[(place / 8 * dim + d) * 8 + place % 8] = finite ? __float2half_rn(v[from + d]) : __ushort_as_half(0);
    }
}
