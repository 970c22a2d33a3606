// qk_norm_rope: each head of q and k, in place: a root mean square norm where there is a gain, then turned by its position.
//
// Order    lane l of a warp sums the squares of d = l, l+32, .. by fma; lanes by a butterfly. Rotation: products rounded, then
//          the sum, by a table of float64 rounded once (compute.Rope.Table), [position][cos | sin][dims/2].
// Needs    head width at most 512. qgain, kgain, table may be null: no norm, no turn.
// Launch   grid (rows, ceil((heads+kvHeads)/8)), block 256: a warp a head. Formula: compute.Ops.QKNormRope.
#include "common.cuh"

KERNEL(256) qk_norm_rope(float* q, float* k, const int* positions, const float* qgain, const float* kgain, const float* table,
                         int heads, int kvHeads, int dim, int dims, int neighbour, float eps) {
    start();
    __shared__ float heads_[8][512];
    int row = blockIdx.x, lane = threadIdx.x % 32, h = blockIdx.y * 8 + threadIdx.x / 32;
    if (h >= heads + kvHeads) return;
    bool query = h < heads;
    float* x = query ? q + ((size_t)row * heads + h) * dim : k + ((size_t)row * kvHeads + h - heads) * dim;
    float* v = heads_[threadIdx.x / 32];
    for (int d = lane; d < dim; d += 32) v[d] = x[d];
    const float* gain = query ? qgain : kgain;
    if (gain) {
        float sum = 0;
        for (int d = lane; d < dim; d += 32) sum = __fmaf_rn(v[d], v[d], sum);
        float r = __frcp_rn(__fsqrt_rn(__fadd_rn(__fdiv_rn(warp_sum(sum), (float)dim), eps)));
        for (int d = lane; d < dim; d += 32) v[d] = __fmul_rn(__fmul_rn(v[d], r), gain[d]);
    }
    __syncwarp();
    if (table) {
        int half = dims / 2;
        const float* cs = table + (size_t)positions[row] * dims;
        for (int j = lane; j < half; j += 32) {
            int a = neighbour ? 2 * j : j, b = neighbour ? 2 * j + 1 : j + half;
            float va = v[a], vb = v[b], c = cs[j], s = cs[half + j];
            v[a] = __fsub_rn(__fmul_rn(va, c), __fmul_rn(vb, s));
            v[b] = __fadd_rn(__fmul_rn(va, s), __fmul_rn(vb, c));
        }
        __syncwarp();
    }
    for (int d = lane; d < dim; d += 32) x[d] = v[d];
}
