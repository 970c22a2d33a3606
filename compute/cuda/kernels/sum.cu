// Sums and parts of f32 rows.
//
// Needs    widths and `from` multiples of 8. Launch: grid (ceil(padded(width)/1024), rows), block 128.
#include "sum.cuh"

// add: s = scale * (x + y), each operator rounded. s may be x. Formula: compute.Ops.Add.
KERNEL(128) add(float* s, const float* x, const float* y, int width, float scale) {
    start();
    add_8(s, x, y, width, scale, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}

// columns: y is width values of each row of x, from a place on. Formula: compute.Ops.Columns.
KERNEL(128) columns(float* y, const float* x, int width, int xwidth, int from) {
    start();
    columns_8(y, x, width, xwidth, from, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}
