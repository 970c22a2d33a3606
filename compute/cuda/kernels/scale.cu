// Numbers that all values, or all rows, share.
//
// Needs    of add_bias: widths multiples of 8. Launch: grid (ceil(padded(width)/1024), rows), block 128.
#include "scale.cuh"

// scale: y = scale * x, rounded; with a cap above 0 then cap - 2*cap / (1 + exp(2/cap * y)), each operator rounded: bit for bit the CPU
// class's. twice is 2/cap. y may be x. Formula: compute.Ops.Scale.
KERNEL(128) scale(float* y, const float* x, int width, float factor, float cap, float twice) {
    start();
    for (int i = 0; i < 8; i++) { // vocabularies have any width
        int k = blockIdx.x * 1024 + i * 128 + threadIdx.x;
        if (k >= width) return;
        size_t at = (size_t)blockIdx.y * width + k;
        y[at] = scaled(x[at], factor, cap, twice);
    }
}

// add_bias: y += bias, which all rows share. Formula: compute.Ops.MatMul.
KERNEL(128) add_bias(float* y, const float* bias, int width) {
    start();
    add_bias_8(y, bias, width, blockIdx.y, (blockIdx.x * 128 + threadIdx.x) * 8);
}
