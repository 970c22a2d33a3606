// Tensors between their two forms: f32 rows, and operands (operand.cuh).
//
// Launch   grid (ceil(padded(width)/1024), rows of the result), block 128. Needs width % 8 == 0.
#include "convert.cuh"

// to_operand: f16 of x*scale.
KERNEL(128) to_operand(half* y, const float* x, int width, int tile, float scale) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k < padded(width)) to_operand_8(y, x, width, tile, scale, blockIdx.y, k);
}

// to_rows: the f32 of an operand, times `scale`: exact.
KERNEL(128) to_rows(float* y, const half* x, int width, int tile, float scale) {
    start();
    to_rows_8(y, x, width, tile, scale, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}

// gather: row i of y is row rows[i] of x, both operands, of tiles of their own.
KERNEL(128) gather(half* y, const half* x, const int* rows, int width, int ytile, int xtile) {
    start();
    int k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (k < padded(width)) gather_8(y, x, rows, width, ytile, xtile, blockIdx.y, k);
}
