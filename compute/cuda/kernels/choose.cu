// Some rows of a weight once more, beside each other, so that a matmul reads no others: the rows' places in tiles of Half, and at each
// place the row that is there (tokens). Formulas: compute.Ops.Choose, MatMulChosen.
#include "layouts.cuh"

// note says that a row has a place. A row that had the place before still knows it, and `tokens` knows better.
__device__ __forceinline__ void note(int* places, int* tokens, int place, int row) {
    if (threadIdx.x) return;
    places[row] = place;
    tokens[place] = row;
}

// choose_LAYOUT: the row rows[b] of w goes to place at[b] of `to`, as the matmuls see it: f16, and its scale.
//
// Needs    rows and places within their weights. A place twice has the same row twice.
// Launch   grid of pairs, block 128.
template <class L>
__device__ void choose(uint8_t* to, float* to_scales, int* places, int* tokens, const uint8_t* w, const float* scales, const int* at,
                       const int* rows, int ktiles) {
    start();
    int place = at[blockIdx.x], row = rows[blockIdx.x], high = row % 16 / 8;
    note(places, tokens, place, row);
    if (threadIdx.x == 0) to_scales[place] = scales[row];
    const uint8_t* from = w + (size_t)(row / 64) * ktiles * L::bytes;
    uint8_t* tiles = to + (size_t)(place / 64) * ktiles * Half::bytes;
    for (int i = threadIdx.x; i < ktiles * 4; i += 128) { // a lane of a tile's fragments
        int kt = i / 4, q = i % 4;
        L tile(from + strip_at<L>(row % 64 / 16, kt, ktiles), row % 8 * 4 + q);
        uint32_t* strip = (uint32_t*)(tiles + strip_at<Half>(place % 64 / 16, kt, ktiles));
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            uint32_t a[4];
            tile.fragment(ks, a);
            uint32_t* out = strip + (ks * 32 + place % 8 * 4 + q) * 4 + place % 16 / 8;
            out[0] = high ? a[1] : a[0];
            out[2] = high ? a[3] : a[2];
        }
    }
}

#define CHOOSE(name, L)                                                                                                              \
    KERNEL(128) choose_##name(uint8_t* to, float* to_scales, int* places, int* tokens, const uint8_t* w, const float* scales,       \
                              const int* at, const int* rows, int ktiles) {                                                          \
        choose<L>(to, to_scales, places, tokens, w, scales, at, rows, ktiles);                                                       \
    }
EACH_LAYOUT(CHOOSE)

// spread: y[r, o] = x[r, place of o] where row o of the weight has one of n places, -Inf elsewhere.
//
// Launch   grid (ceil(width/1024), rows), block 128. y [rows, width], x [rows, n], f32.
KERNEL(128) spread(float* y, const float* x, const int* places, const int* tokens, int width, int n) {
    start();
    for (int i = 0; i < 8; i++) {
        int o = blockIdx.x * 1024 + i * 128 + threadIdx.x;
        if (o >= width) return;
        int place = places[o]; // none: below 0
        bool chosen = place >= 0 && tokens[place] == o;
        y[(size_t)blockIdx.y * width + o] = chosen ? x[(size_t)blockIdx.y * n + place] : -INFINITY;
    }
}
