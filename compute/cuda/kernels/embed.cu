// embed_LAYOUT: x[r] = scale * w[token(r)], a row of a packed weight as the matmuls see it: f16, then one rounding.
//
// A token below 0 is compute.Drawn: that of an answer of the step before. A row that gave none has any, but no other than there are.
//
// Needs    tokens within the weight's n rows. Writes x [rows, K] f32.
// Launch   grid rows, block 128. Formula: compute.Ops.Embed.
#include "layouts.cuh"
#include "sample.cuh"

__device__ __forceinline__ int token_at(const int* tokens, const Answer* drawn, int n) {
    int token = tokens[blockIdx.x];
    return min(max(token < 0 ? drawn[-1 - token].token : token, 0), n - 1);
}

template <class L>
__device__ void embed(float* x, const int* tokens, const Answer* drawn, const uint8_t* w, const float* scales, int n, int k, int ktiles, float scale) {
    start();
    int token = token_at(tokens, drawn, n), row = token % 64, hi = row % 16 / 8;
    float* out = x + (size_t)blockIdx.x * k;
    const uint8_t* tiles = w + (size_t)(token / 64) * ktiles * L::bytes;
    float up = scales[token];
    for (int i = threadIdx.x; i < ktiles * 4; i += 128) { // a lane of a tile's fragments
        int kt = i / 4, q = i % 4;
        L tile(tiles + strip_at<L>(row / 16, kt, ktiles), row % 8 * 4 + q);
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            uint32_t a[4];
            tile.fragment(ks, a);
            half2 v[2] = {as_half2(hi ? a[1] : a[0]), as_half2(hi ? a[3] : a[2])};
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int at = kt * 64 + ks * 16 + 8 * j + 2 * q;
                if (at < k) out[at] = __fmul_rn(__fmul_rn(__low2float(v[j]), up), scale);
                if (at + 1 < k) out[at + 1] = __fmul_rn(__fmul_rn(__high2float(v[j]), up), scale);
            }
        }
    }
}

#define EMBED(name, L)                                                                                                                                \
    KERNEL(128) embed_##name(float* x, const int* tokens, const Answer* drawn, const uint8_t* w, const float* scales, int n, int k, int ktiles, float scale) { \
        embed<L>(x, tokens, drawn, w, scales, n, k, ktiles, scale);                                                                                   \
    }
EACH_LAYOUT(EMBED)

// embed_f32: the same of a float32 weight [N, K].
KERNEL(128) embed_f32(float* x, const int* tokens, const Answer* drawn, const float* w, int n, int k, float scale) {
    start();
    const float* row = w + (size_t)token_at(tokens, drawn, n) * k;
    for (int i = threadIdx.x; i < k; i += 128) x[(size_t)blockIdx.x * k + i] = __fmul_rn(row[i], scale);
}

// copy_rows: row places[i] of `to` is row rows[i] of `from`, both f32 [.., K]. The places are all different.
//
// Launch   grid rows, block 128. Formula: compute.Ops.Keep, Kept.
KERNEL(128) copy_rows(float* to, const float* from, const int* places, const int* rows, int k) {
    start();
    for (int i = threadIdx.x; i < k; i += 128)
        to[(size_t)places[blockIdx.x] * k + i] = from[(size_t)rows[blockIdx.x] * k + i];
}
