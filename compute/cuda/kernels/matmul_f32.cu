// matmul_f32: y = x·Wᵀ for a float32 weight [n, k] that f16 cannot hold: small matrices, and no tensor cores.
//
// Order    lane l of a warp sums k = l, l+32, .. by fma, ascending; lanes by a butterfly. K alone decides it.
// Launch   grid (ceil(n/4), ceil(rows/8)), block 128: a warp an output of eight rows. x an operand; unscale undoes its scale.
#include "operand.cuh"

KERNEL(128) matmul_f32(float* y, const half* x, const float* w, int n, int k, int rows, int tile, float unscale) {
    start();
    int o = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, kpad = padded(k);
    if (o >= n) return;
    const half* b = x + operand_at(blockIdx.y * 8, 0, tile, kpad);
    float sum[8] = {};
    for (int i = lane; i < k; i += 32) {
        float v = w[(size_t)o * k + i];
#pragma unroll
        for (int r = 0; r < 8; r++) sum[r] = __fmaf_rn(v, __half2float(b[(size_t)i / 8 * tile * 8 + r * 8 + i % 8]), sum[r]);
    }
#pragma unroll
    for (int r = 0; r < 8; r++) {
        float s = warp_sum(sum[r]);
        int row = blockIdx.y * 8 + r;
        if (lane == 0 && row < rows) y[(size_t)row * n + o] = __fmul_rn(s, unscale);
    }
}
