// attend_DIM_FORMAT: softmax attention of one row and the query heads of one KV head over the pages of its sequence.
//
// Order    pages ascending. A page: scores by mma over d ascending, scaled by c = scale*log2(e); the maximum so far; p =
//          ex2(score*c - max) to f16; sums and outputs times ex2(old max - new), then p·1 and p·v added by mma, 16 positions a
//          link, ascending. A split (pages.cuh) that ends, and the last page: merged into the total,
//              max = the larger    sum = sum*a + split*b    out = out*a + split*b    a, b = ex2(own max - max), by fma.
//          A cap comes between the scores and their maximum: s = bend * tanh(s/bend), bend = cap/scale, as Bend (softmax.cuh) has it.
//          A sink joins at the very end: max = the larger of both, u = ex2(own max - max), out * (u / (sum*u + ex2(sink*log2(e) - max))).
//          At the end out/sum, as out * (1/sum), to f16. The row's position and window alone decide it (R1 to R3).
// Needs    q [rows, kvHeads*group*DIM] f32; values in pages finite, also where nothing was stored. Writes an operand. A row of
//          slot -1 gives zeros.
// Launch   grid (kvHeads*ceil(group/16), rows), block 128. Formula: compute.Ops.Attention.
#include "operand.cuh"
#include "pages.cuh"
#include "queries.cuh"
#include "softmax.cuh"

template <int D, class F>
__device__ void attend(half* out, const float* q, const uint8_t* kv, const int* positions, const int* slots, const int* tables,
                       int stride, int layers, int layer, int kvHeads, int group, int tile, float c, int window,
                       float bend, const float* sinks) {
    start();
    constexpr int NT = (D / 8 + 3) / 4; // n8 tiles of the output a warp
    __shared__ float peak[4][16];
    __shared__ __align__(16) half probs[16][72];
    __shared__ uint4 room[Queries<D>::ROOM];
    int row = blockIdx.y, kh = blockIdx.x % kvHeads, t = threadIdx.x, w = t / 32, g = t % 32 / 4, l = t % 4;
    int h0 = blockIdx.x / kvHeads * 16 + g, h1 = h0 + 8, width = kvHeads * group * D, kpad = padded(width);
    if (blockIdx.x == 0)
        for (int k = width + t; k < kpad; k += 128) out[operand_at(row, k, tile, kpad)] = __ushort_as_half(0);
    auto store = [&](int h, int d, float a, float b) {
        if (h < group) *(uint32_t*)(out + operand_at(row, (kh * group + h) * D + d, tile, kpad)) = half2_bits(a, b);
    };
    int slot = slots[row], pos = positions[row];
    if (slot < 0) {
        for (int n = w; n < D / 8; n += 4) store(h0, 8 * n + 2 * l, 0, 0), store(h1, 8 * n + 2 * l, 0, 0);
        return;
    }
    const float* q0 = q + (size_t)row * width + (kh * group + h0) * D;
    auto query = [&](int h, int d) -> uint32_t {
        if (h >= group) return 0;
        const float* v = q0 + (h - h0) * D + d;
        return half2_bits(v[0], v[1]);
    };
    Queries<D> queries(room);
    queries.load(w, t % 32, [&](int i, int d) { return query(i ? h1 : h0, d); });
    __syncthreads();
    float o[NT][4] = {}, ot[NT][4] = {}, sum[4] = {}, total[2] = {}, m[2] = {NONE, NONE}, mt[2] = {NONE, NONE};
    int from = window > 0 ? max(0, pos + 1 - window) : 0, last = pos / PAGE;
    for (int p = from / PAGE; p <= last; p++) {
        const uint8_t* keys = kv + page_at<F>(tables[(size_t)slot * stride + p], layers, layer, kvHeads, kh, D);
        const uint8_t* values = keys + F::tile(D);
        float s[2][4] = {}, top[2] = {NONE, NONE};
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            uint32_t a[4];
            queries.get(a, j, t % 32);
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int at = w * 16 + n * 8 + g, d = 16 * j + 2 * l;
                mma(s[n], a, F::key_pair(keys, D, d, at), F::key_pair(keys, D, d + 8, at));
            }
        }
        if (bend > 0) {
            const Bend bent(bend);
#pragma unroll
            for (int i = 0; i < 8; i++) s[i / 4][i % 4] = bent(s[i / 4][i % 4]);
        }
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int k = p * PAGE + w * 16 + n * 8 + 2 * l + i % 2;
                if (k > pos || k < from) s[n][i] = NONE;
                top[i / 2] = fmaxf(top[i / 2], s[n][i]);
            }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 1));
            top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 2));
            if (l == 0) peak[w][g + 8 * i] = top[i];
        }
        __syncthreads();
        float z[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = g + 8 * i;
            float most = fmaxf(fmaxf(peak[0][h], peak[1][h]), fmaxf(peak[2][h], peak[3][h]));
            float now = fmaxf(m[i], __fmul_rn(most, c));
            z[i] = base_of(now);
            float e = now == m[i] ? 1 : ex2(__fsub_rn(m[i], z[i]));
            m[i] = now;
#pragma unroll
            for (int n = 0; n < NT; n++) o[n][2 * i] = __fmul_rn(o[n][2 * i], e), o[n][2 * i + 1] = __fmul_rn(o[n][2 * i + 1], e);
            sum[2 * i] = __fmul_rn(sum[2 * i], e);
#pragma unroll
            for (int n = 0; n < 2; n++)
                *(uint32_t*)&probs[h][w * 16 + n * 8 + 2 * l] =
                    half2_bits(ex2(__fmaf_rn(s[n][2 * i], c, -z[i])), ex2(__fmaf_rn(s[n][2 * i + 1], c, -z[i])));
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t f[4] = {*(uint32_t*)&probs[g][16 * j + 2 * l], *(uint32_t*)&probs[g + 8][16 * j + 2 * l],
                             *(uint32_t*)&probs[g][16 * j + 8 + 2 * l], *(uint32_t*)&probs[g + 8][16 * j + 8 + 2 * l]};
#pragma unroll
            for (int n = 0; n < NT; n++)
                if (w + 4 * n < D / 8) {
                    int at = 16 * j + 2 * l, d = (w + 4 * n) * 8 + g;
                    mma(o[n], f, F::value_pair(values, D, at, d), F::value_pair(values, D, at + 8, d));
                }
            mma(sum, f, 0x3c003c00u, 0x3c003c00u);
        }
        if (split_ends(p) || p == last)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                Merge to(mt[i], m[i]);
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int j = 2 * i; j < 2 * i + 2; j++) ot[n][j] = to(ot[n][j], o[n][j]), o[n][j] = 0;
                total[i] = to(total[i], sum[2 * i]);
                sum[2 * i] = sum[2 * i + 1] = 0, mt[i] = to.max, m[i] = NONE;
            }
    }
    auto close = [&](int i, int h) { return closing(total[i], mt[i], sinks && h < group ? sinks + kh * group + h : nullptr); };
    float inv[2] = {close(0, h0), close(1, h1)};
#pragma unroll
    for (int n = 0; n < NT; n++)
        if (w + 4 * n < D / 8) {
            int d = (w + 4 * n) * 8 + 2 * l;
            store(h0, d, __fmul_rn(ot[n][0], inv[0]), __fmul_rn(ot[n][1], inv[0]));
            store(h1, d, __fmul_rn(ot[n][2], inv[1]), __fmul_rn(ot[n][3], inv[1]));
        }
}

#define ATTEND(D, name, F)                                                                                                       \
    KERNEL(128) attend_##D##_##name(half* out, const float* q, const uint8_t* kv, const int* positions, const int* slots,        \
                                    const int* tables, int stride, int layers, int layer, int kvHeads, int group, int tile, float c, int window, float bend, const float* sinks) { \
        attend<D, F>(out, q, kv, positions, slots, tables, stride, layers, layer, kvHeads, group, tile, c, window, bend, sinks);        \
    }
EACH_WIDTH(ATTEND) EACH_FORMAT(ATTEND, 512)
