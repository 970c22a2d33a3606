// matmul_hopper_LAYOUT_TILE: y = x·Wᵀ for operands of tiles of TILE rows: matmul_hopper.cuh says how.
//
// Launch   grid of any number of blocks, block 128*GROUPS + 64 (TILE 64 and 128: + 128), shared stages*rows + held*weights of Plan.
//          Formula: compute.Ops.MatMul.
// Targets  sm_90a
#include "matmul_hopper.cuh"

template <int T> constexpr int GROUPS = T == 64 ? 4 : 2; // warpgroups that multiply

template <class L, int T>
__device__ void matmul(const Matmul<GROUPS<T>>& mm, const uint8_t* x, float* partials, int ktiles, int rows, int whole, int stages, float unscale) {
    using P = Plan<L, T, GROUPS<T>>;
    if (threadIdx.x == 0) ring_init(0, stages + P::held, 1, 4 * GROUPS<T>);
    __syncthreads();
    launch_next();
    const Share<L, T, GROUPS<T>> share(mm, blockIdx.x, gridDim.x, ktiles, whole);
    int group = threadIdx.x / 128, t = threadIdx.x % 128, brings = group == GROUPS<T>;
    Ring xs{P::rows, stages, 0, brings}, ws{P::weights, P::held, 0, brings, stages, stages * P::rows};
    if (brings) {
        if constexpr (T == 64) asm volatile("setmaxnreg.dec.sync.aligned.u32 56;\n");
        if constexpr (T == 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
        if (t == 0) share.bring_rows(xs, x, [] { wait_for_earlier(), copies_see_writes(); });
        if (t == 32) share.bring_weights(ws);
        return;
    }
    // What one gives up the others take: 640 threads begin with 96 registers, 384 with 168, and more than those there are not to be had.
    if constexpr (T == 64) asm volatile("setmaxnreg.inc.sync.aligned.u32 104;\n");
    if constexpr (T == 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
    share.multiply(xs, ws, partials, rows, unscale, group, t, [] { wait_for_earlier(); });
}

#define MATMUL(name, L, T)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(Plan<L, T, GROUPS<T>>::threads, Plan<L, T, GROUPS<T>>::blocks)                                                 \
        matmul_hopper_##name##_##T(float* y0, const uint8_t* w0, const float* s0, int n0, float* y1, const uint8_t* w1, const float* s1,  \
                                   int n1, float* y2, const uint8_t* w2, const float* s2, int n2, float* y3, const uint8_t* w3,           \
                                   const float* s3, int n3, const uint8_t* x, float* partials, int ktiles, int rows, int whole, int stages, \
                                   float unscale) {                                                                                      \
        const Matmul<GROUPS<T>> mm{{{y0, w0, s0, n0}, {y1, w1, s1, n1}, {y2, w2, s2, n2}, {y3, w3, s3, n3}}, (rows + T - 1) / T};          \
        matmul<L, T>(mm, x, partials, ktiles, rows, T > 16 ? whole : 0, stages, unscale);                                                  \
    }
#define EACH_TILE(name, L) MATMUL(name, L, 8) MATMUL(name, L, 16) MATMUL(name, L, 32) MATMUL(name, L, 64) MATMUL(name, L, 128)
EACH_LAYOUT(EACH_TILE)
