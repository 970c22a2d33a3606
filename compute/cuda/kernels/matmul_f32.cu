// matmul_f32: y = x·Wᵀ for a float32 weight [n, k] that f16 cannot hold: small matrices, and no tensor cores.
//
//        K →    stage 0    stage 1                a block: 8 outputs of R rows: 8 of up to 16, else 16
//   W    8   ┌──────────┬──────────┬─ ─           a warp: two of the outputs
//   x    R   └──────────┴──────────┴─ ─           a lane: of each 32 of K four, of every fourth row
//
// Stages of 256 of K come to shared memory four at a time, W's first ones while the kernel before this one ends: a chain of loads from memory
// would take as long as all the rest.
//
// Order    sum l of 32 takes k = l, l+32, .. by fma, ascending; the sums are added by a butterfly, as by 32 lanes. K alone decides it.
// Needs    k a multiple of 8. x an operand; unscale undoes its scale.
// Launch   grid (ceil(n/8), ceil(rows/R)), block 128, dynamic shared memory: STAGES * Stage<R>::bytes.
#include "async.cuh"
#include "halves.cuh"
#include "operand.cuh"

constexpr int STAGES = 4, DEEP = 256; // of K
constexpr int WARPS = 4, EACH = 2, OUTPUTS = WARPS * EACH;

// Stage is where x and W of a stage lie: x by eights of K, as in the operand, their distance such that banks are apart.
template <int R> struct Stage {
    static constexpr int group = R * 16 + 32, weights = DEEP / 8 * group, bytes = weights + OUTPUTS * DEEP * 4;
};

template <int R>
__device__ __forceinline__ void multiply(float* y, const half* x, const float* w, int n, int k, int rows, int tile, float unscale) {
    extern __shared__ __align__(16) uint8_t shared[];
    using S = Stage<R>;
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, quad = lane % 8, part = lane / 8, o0 = blockIdx.x * OUTPUTS, row0 = blockIdx.y * R;
    const half* from = x + operand_at(row0, 0, tile, padded(k));
    auto at = [&](int stage) { return shared + stage % STAGES * S::bytes; };
    auto ask_weights = [&](int stage) {
#pragma unroll
        for (int i = t; i < OUTPUTS * DEEP / 4; i += 32 * WARPS) {
            int o = i / (DEEP / 4), c = i % (DEEP / 4) * 4, at_k = stage * DEEP + c;
            if (o0 + o < n && at_k < k) copy_16(at(stage) + S::weights + (o * DEEP + c) * 4, w + (size_t)(o0 + o) * k + at_k);
        }
    };
    auto ask_rows = [&](int stage) {
#pragma unroll
        for (int i = t; i < R * DEEP / 8; i += 32 * WARPS) {
            int g = i / R, r = i % R, eight = stage * (DEEP / 8) + g;
            if (eight * 8 < k) copy_16(at(stage) + g * S::group + r * 16, from + ((size_t)eight * tile + r) * 8);
        }
    };
    const int stages = (k + DEEP - 1) / DEEP;
    for (int i = 0; i < STAGES - 1; i++) ask_weights(i);
    start();
    for (int i = 0; i < STAGES - 1; i++) ask_rows(i), copies_end();

    float sum[R / 4][EACH][4] = {};
    for (int stage = 0; stage < stages; stage++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        ask_weights(stage + STAGES - 1), ask_rows(stage + STAGES - 1), copies_end(); // in the place of the one before
        if (o0 + warp * EACH >= n) continue;
        const uint8_t* rows_at = at(stage) + quad / 2 * S::group + part * 16 + quad % 2 * 8;
        const uint8_t* weights_at = at(stage) + S::weights + (warp * EACH * DEEP + quad * 4) * 4;
#pragma unroll
        for (int i = 0; i < DEEP / 32; i++) {
            if (stage * DEEP + i * 32 + quad * 4 >= k) break;
            float4 v[EACH];
#pragma unroll
            for (int o = 0; o < EACH; o++) v[o] = *(const float4*)(weights_at + (o * DEEP + i * 32) * 4);
#pragma unroll
            for (int r = 0; r < R / 4; r++) {
                uint2 bits = *(const uint2*)(rows_at + i * 4 * S::group + r * 64);
                float2 a = __half22float2(*(const half2*)&bits.x), b = __half22float2(*(const half2*)&bits.y);
#pragma unroll
                for (int o = 0; o < EACH; o++) {
                    float* s = sum[r][o];
                    s[0] = __fmaf_rn(v[o].x, a.x, s[0]), s[1] = __fmaf_rn(v[o].y, a.y, s[1]);
                    s[2] = __fmaf_rn(v[o].z, b.x, s[2]), s[3] = __fmaf_rn(v[o].w, b.y, s[3]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R / 4; r++)
#pragma unroll
        for (int o = 0; o < EACH; o++) {
            float* s = sum[r][o];
#pragma unroll
            for (int i = 0; i < 4; i++) // sums 16, 8 and 4 apart
#pragma unroll
                for (int step = 4; step > 0; step /= 2) s[i] = __fadd_rn(s[i], __shfl_xor_sync(~0u, s[i], step));
            float all = __fadd_rn(__fadd_rn(s[0], s[2]), __fadd_rn(s[1], s[3]));
            int row = row0 + 4 * r + part, output = o0 + warp * EACH + o;
            if (quad == 0 && row < rows && output < n) y[(size_t)row * n + output] = __fmul_rn(all, unscale);
        }
}

KERNEL(32 * WARPS) matmul_f32(float* y, const half* x, const float* w, int n, int k, int rows, int tile, float unscale) {
    if (rows <= 16) multiply<8>(y, x, w, n, k, rows, tile, unscale);
    else multiply<16>(y, x, w, n, k, rows, tile, unscale);
}
