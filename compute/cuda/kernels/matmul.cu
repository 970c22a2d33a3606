// matmul_LAYOUT_ROWS: y = x·Wᵀ by mma.m16n8k16, for blocks of 8, 16 or 32 rows.
//
//       K →  segment 0 (512)   segment 1          A: 16x16 of W a warp, dequantised to f16 in registers
//          ┌─────────────────┬─────────────┬─ ─   B: 16x8, eight rows of x
//  64 of W │ k16 k16 .. k16  │             │      C: a chain over a segment's k16 steps, from zero, in f32
//          └─────────────────┴─────────────┴─ ─
//                  C0        +      C1     + ..   = y/(row's scale), in this order
//
// Order    k16 steps ascending within a segment of 512 of K (the last may be shorter), segments added ascending in f32. K alone
//          decides it (R1), and every kernel that multiplies by a packed weight keeps it (R2).
// Needs    x an operand of tiles of at least ROWS rows, W packed (layouts.cuh). Writes y [rows, n] f32, no more.
// Launch   grid (ceil(n/64), ceil(rows/ROWS)), block 128. Formula: compute.Ops.MatMul. unscale undoes the operand's scale.
#include "layouts.cuh"
#include "operand.cuh"

constexpr int SEGMENT = 512;

template <class L, int NT>
__device__ void matmul(float* y, const half* x, const uint8_t* w, const float* scales, int n, int ktiles, int rows, int tile, float unscale) {
    start();
    int t = threadIdx.x, g = t % 32 / 4, q = t % 4, r0 = blockIdx.y * 8 * NT;
    const uint8_t* wt = w + (size_t)blockIdx.x * ktiles * L::bytes;
    const half* xt = x + operand_at(r0 + g, 0, tile, ktiles * 64) + 2 * q; // its rows are in one tile
    float total[NT][4], c[NT][4];
    for (int kt = 0; kt < ktiles; kt++) {
        bool first = kt % (SEGMENT / 64) == 0, last = (kt + 1) % (SEGMENT / 64) == 0 || kt + 1 == ktiles;
        if (first)
#pragma unroll
            for (int j = 0; j < NT; j++) c[j][0] = c[j][1] = c[j][2] = c[j][3] = 0;
        L a(wt + strip_at<L>(t / 32, kt, ktiles), t % 32);
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            uint32_t f[4];
            a.fragment(ks, f);
            const half* b = xt + (size_t)(kt * 8 + 2 * ks) * tile * 8;
#pragma unroll
            for (int j = 0; j < NT; j++) mma(c[j], f, *(const uint32_t*)(b + j * 64), *(const uint32_t*)(b + j * 64 + tile * 8));
        }
        if (last)
#pragma unroll
            for (int j = 0; j < NT; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) total[j][i] = kt < SEGMENT / 64 ? c[j][i] : __fadd_rn(total[j][i], c[j][i]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int o = blockIdx.x * 64 + t / 32 * 16 + g + i / 2 * 8;
        if (o >= n) continue;
        float s = __fmul_rn(scales[o], unscale);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int r = r0 + j * 8 + 2 * q + i % 2;
            if (r < rows) y[(size_t)r * n + o] = __fmul_rn(total[j][i], s);
        }
    }
}

#define MATMUL(name, L, ROWS)                                                                                             \
    KERNEL(128) matmul_##name##_##ROWS(float* y, const half* x, const uint8_t* w, const float* scales, int n, int ktiles, \
                                       int rows, int tile, float unscale) {                                              \
        matmul<L, ROWS / 8>(y, x, w, scales, n, ktiles, rows, tile, unscale);                                             \
    }
#define EACH_ROWS(name, L) MATMUL(name, L, 8) MATMUL(name, L, 16) MATMUL(name, L, 32)
EACH_LAYOUT(EACH_ROWS)
