// experts_LAYOUT_ROWS: y = gate(Wg·x, Wu·x) of each expert for the rows that have chosen it, as an operand by places; then y = Wd·x of
// each expert for its places, f32 rows by places.
// experts_add: each row's experts, times their weights, by falling key, then what is shared.
//
// Order    of the products: experts.cuh. A bias is added to the scaled sum, rounded. The gates are gate.cu's. experts_add begins with
//          the first product and goes on by fma.
// Needs    rows by places (router.cu); widths that are multiples of 8. Formula: compute.Ops.Experts.
// Targets  sm_90a
#include "experts.cuh"
#include "experts_layouts.cuh"
#include "experts_parts.cuh"

// experts: gate_up says which of the two kernels it is.
template <class L, int NT, int SPLIT>
__device__ __forceinline__ void experts(const Bank& first, const Bank& second, const half* x, const int4* work, const int* from, int n, int ktiles, int xtile,
                                        float unscale, bool gate_up, half* operand, int gating, float limit, float scale, float* rows) {
    start();
    extern __shared__ __align__(16) uint8_t shared[];
    if (blockIdx.y >= work[0].x) return;
    int4 piece = work[1 + blockIdx.y];
    int at = gate_up ? blockIdx.x : 2 * blockIdx.x, next = gate_up ? at : min(at + 1, (n + 63) / 64 - 1); // an odd one out is multiplied twice
    Source s{{first.tile(piece.x, n, ktiles, at, L::bytes), second.tile(piece.x, n, ktiles, next, L::bytes)}, x, from, piece.y, piece.z, xtile, ktiles};
    products<L, NT, SPLIT>(s, shared, [&](int output, int r, float a, float b) {
        int o = at * 64 + output;
        if (r >= piece.z) return;
        if (gate_up) {
            float v = 0; // K of the next matmul is padded with zeros
            if (o < n) v = gated(first.value(a, piece.x, n, o, unscale), second.value(b, piece.x, n, o, unscale), gating, limit);
            operand[operand_at(piece.y + r, o, 8, padded(n))] = __float2half_rn(__fmul_rn(v, scale));
        } else {
            float* row = rows + (size_t)(piece.y + r) * n;
            if (o < n) row[o] = first.value(a, piece.x, n, o, unscale);
            if (o + 64 < n) row[o + 64] = second.value(b, piece.x, n, o + 64, unscale); // and stored once
        }
    });
}

// experts_LAYOUT_ROWS: gates and ups where `gate_up`, which gives the operand; else downs, of which second is first, and from null.
//
// Launch   grid (ceil(n/64), or of downs ceil(n/128); most pieces of work), block 128*SPLIT, shared SPLIT*(its ring + 4096 where SPLIT > 1).
#define EXPERTS(name, L, ROWS, SPLIT)                                                                                                        \
    KERNEL(128 * (SPLIT)) experts_##name##_##ROWS(const uint8_t* first, const float* first_scales, const float* first_bias, const uint8_t* second, \
                                                  const float* second_scales, const float* second_bias, const half* x, const int4* work,         \
                                                  const int* from, int n, int ktiles, int xtile, float unscale, int gate_up, half* operand,      \
                                                  int gating, float limit, float scale, float* rows) {                                          \
        experts<L, ROWS / 8, SPLIT>(Bank{first, first_scales, first_bias}, Bank{second, second_scales, second_bias}, x, work, from, n, ktiles,  \
                                    xtile, unscale, gate_up, operand, gating, limit, scale, rows);                                             \
    }
#define EACH_ROWS(name, L) EXPERTS(name, L, 8, FEW_SPLIT<L>) EXPERTS(name, L, 64, 1)
EACH_EXPERTS_LAYOUT(EACH_ROWS)

// experts_add: y[r] = sum_j weights[r,j] * d[place[r,j]], then shared[r] times the sigmoid of its gate. shared and gate may be null.
//
// Launch   grid (ceil(width/1024), rows), block 256.
KERNEL(256) experts_add(float* y, const float* d, const int* place, const float* weights, const float* shared, const float* gate, int width,
                        int chosen) {
    start();
    int row = blockIdx.y, k = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (k >= width) return;
    add_experts_4(y, d, place + (size_t)row * chosen, weights + (size_t)row * chosen, shared, gate, width, chosen, row, k);
}
