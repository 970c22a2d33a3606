// Tensors between their two forms: f32 rows, and operands (operand.cuh).
//
// Launch   grid (ceil(padded(width)/1024), rows of the result), block 128. Needs width % 8 == 0.
#include "operand.cuh"

// to_operand: f16 of x*scale.
KERNEL(128) to_operand(half* y, const float* x, int width, int tile, float scale) {
    start();
    int row = blockIdx.y, k = (blockIdx.x * 128 + threadIdx.x) * 8, kpad = padded(width);
    if (k >= kpad) return;
    float v[8] = {};
    if (k < width) load8(v, x + (size_t)row * width + k);
    store8(y, row, k, tile, kpad, v, scale);
}

// to_rows: the f32 of an operand, times `scale`: exact.
KERNEL(128) to_rows(float* y, const half* x, int width, int tile, float scale) {
    start();
    int row = blockIdx.y, k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k >= width) return;
    const half* in = x + operand_at(row, k, tile, padded(width));
    for (int i = 0; i < 8; i++) y[(size_t)row * width + k + i] = __fmul_rn(__half2float(in[i]), scale);
}

// gather: row i of y is row rows[i] of x, both operands, of tiles of their own.
KERNEL(128) gather(half* y, const half* x, const int* rows, int width, int ytile, int xtile) {
    start();
    int row = blockIdx.y, k = (blockIdx.x * 128 + threadIdx.x) * 8, kpad = padded(width);
    if (k >= kpad) return;
    *(uint4*)(y + operand_at(row, k, ytile, kpad)) = *(const uint4*)(x + operand_at(rows[row], k, xtile, kpad));
}
