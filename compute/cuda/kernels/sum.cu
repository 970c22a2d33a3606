// Sums and parts of f32 rows.
//
// Needs    widths and `from` multiples of 8. Launch: grid (ceil(padded(width)/1024), rows), block 128.
#include "operand.cuh"

// add: s = scale * (x + y), each operator rounded. s may be x. Formula: compute.Ops.Add.
KERNEL(128) add(float* s, const float* x, const float* y, int width, float scale) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k >= width) return;
    size_t at = (size_t)blockIdx.y * width + k;
    float a[8], b[8];
    load8(a, x + at);
    load8(b, y + at);
#pragma unroll
    for (int i = 0; i < 8; i++) s[at + i] = __fmul_rn(__fadd_rn(a[i], b[i]), scale);
}

// columns: y is width values of each row of x, from a place on. Formula: compute.Ops.Columns.
KERNEL(128) columns(float* y, const float* x, int width, int xwidth, int from) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k >= width) return;
    float v[8];
    load8(v, x + (size_t)blockIdx.y * xwidth + from + k);
#pragma unroll
    for (int i = 0; i < 8; i++) y[(size_t)blockIdx.y * width + k + i] = v[i];
}
