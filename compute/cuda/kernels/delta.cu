// The gated delta rule by pages: prompts, single rows and drafts by one kernel, so their bits are equal. Formula: compute.Ops.GatedDelta.
//
// delta_prepare makes what the rule reads: queries, keys and values as halves, b = sigmoid(beta), g = A*softplus(alpha + DT).
//
// delta_convolve does the same with causal_conv before it, and the same bits; `rows` is what a step sends of them (delta.cuh).
//
// Order    a head's squares: eight by fma from zero, then a butterfly over dim/8 lanes. q is (x*r)*(1/sqrt(dim)), k is x*r, rounded to f16.
// Needs    dim 16, 32, 64 or 128. Launch: grid (ceil(width/1024) + 1, rows), block 128; the last of x has the gates.
//
// delta_rule takes the rows of a sequence for one value head and C value columns, page by page, blocks of 16 rows within a page.
//
//                key columns                 rows of the page
//             ┌──────────────┐            ┌────┬────┬────┬────┐
//   rows of   │  k, then q   │ · S'       │ a  │    │    │    │   a = exp(G[r]-G[j]) k[r].k[j], and the same with q, as halves
//   a block   └──────────────┘            └────┴────┴────┴────┘
//
//   x[r] = v[r] - exp(G[r]) (S'k[r]) - sum over earlier blocks a·u     products of f16 by tensor cores, sums f32
//   x[r] = x[r] - a[r][j]*u[j], j in the own block, ascending, by fma; u[r] = b[r]*x[r], as f16
//   o[r] = exp(G[r]) (S'q[r]) + sum over blocks up to the own a·u
//   at the page's end S = exp(G[63]) S + sum_j u[j] (exp(G[63]-G[j]) k[j])', one chain over j; S stays f32, products read it as f16
//
// Order    every chain ascends by 16 of its depth; blocks ascend. A row of a product depends on no other row of it, so a block of one row gives
//          that row's bits. exp(G[r]-G[j]) is ex2((G[r]-G[j])*log2(e)); G adds ascending from the page's start.
// Needs    dim 16, 32, 64 or 128; C = min(dim, 32). order, starts and tables as delta.cuh says.
// Launch   grid (dim/C, value heads, sequences), block 256, dynamic shared memory: Slice::bytes.
#include "delta_rows.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32; // of delta_rule

// gate_row is b and g of a row, by a block; a row without a sequence has its output zeroed.
__device__ __forceinline__ void gate_row(float* b, float* g, float* out, const float* beta, const float* alpha, const float* a, const float* dt,
                                         int row, int slot, int heads, int dim) {
    for (int h = threadIdx.x; h < heads; h += blockDim.x) {
        size_t at = (size_t)row * heads + h;
        b[at] = learning(beta[at]), g[at] = forgetting(alpha[at], a[h], dt[h]);
    }
    if (slot < 0)
        for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) out[(size_t)row * heads * dim + i] = 0;
}

KERNEL(128) delta_prepare(half* qkv, float* b, float* g, float* out, const float* x, const float* beta, const float* alpha, const float* a,
                          const float* dt, const int* slots, int keyHeads, int valueHeads, int dim, float eps) {
    start();
    int row = blockIdx.y, width = (2 * keyHeads + valueHeads) * dim, k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (blockIdx.x == gridDim.x - 1) return gate_row(b, g, out, beta, alpha, a, dt, row, slots[row], valueHeads, dim);
    float v[8] = {};
    if (k < width) load8(v, x + (size_t)row * width + k);
    normalise(v, k, keyHeads * dim, dim, eps);
    if (k < width) *(uint4*)(qkv + (size_t)row * width + k) = halves(v);
}

// delta_convolve is causal_conv and delta_prepare in one, with their bits.
KERNEL(128) delta_convolve(half* qkv, float* gates, float* out, const float* x, const float* w, const float* beta, const float* alpha,
                           const float* a, const float* dt, uint8_t* memory, const int* rows, const int* tables, int stride, int layers, int layer,
                           int keyHeads, int valueHeads, int dim, int taps, float eps) {
    start();
    DeltaShape shape{layers, layer, keyHeads, valueHeads, dim, taps};
    int n = gridDim.y, i = blockIdx.y;
    const int* lists = rows + CHUNK_INTS * n;
    History h{lists, lists + n, lists + 2 * n, lists + 4 * n, lists + 5 * n, tables, stride};
    int row = h.order[i], s = h.sequence[i], width = shape.width(), k = (blockIdx.x * 128 + threadIdx.x) * 8;
    if (blockIdx.x == gridDim.x - 1)
        return gate_row(gates, gates + (size_t)n * valueHeads, out, beta, alpha, a, dt, row, h.slots[row], valueHeads, dim);
    float v[8] = {};
    if (k < width && s >= 0) conv_8(v, x, w, memory, h.chunk(s), shape, i - h.starts[s], k, true, false);
    normalise(v, k, keyHeads * dim, dim, eps);
    if (k < width) *(uint4*)(qkv + (size_t)row * width + k) = halves(v);
}

__device__ __forceinline__ uint32_t pair(const half* p) { return *(const uint32_t*)p; }

// rows_of is the A operand of 16 rows that lie `pitch` halves apart, at a column.
__device__ __forceinline__ void rows_of(uint32_t (&a)[4], const half* r, int pitch, int g, int q) {
    a[0] = pair(r + g * pitch + 2 * q), a[1] = pair(r + (g + 8) * pitch + 2 * q);
    a[2] = pair(r + g * pitch + 8 + 2 * q), a[3] = pair(r + (g + 8) * pitch + 8 + 2 * q);
}

// Slice is a block's part of the work: D is the width of a head, C the value columns.
template <int D, int C> struct Slice {
    static constexpr int KP = D + 8, AP = PAGE + 8, XP = C + 1; // pitches that keep banks apart
    half *k, *q;       // [64][KP] the page's keys; the block's queries
    half *ak, *aq;     // [64][AP] the products with decays
    half* kt;          // [D][AP] decayed keys, transposed; in place of ak and aq
    half* u;           // [C][AP] by column
    float *ks, *qs;    // [64][XP] what rows read from S
    float* x;          // [16][XP]
    float *g, *b;      // [64]
    int w, l, gr, qd;  // warp and lane; the lane's group and place in it

    static constexpr int products = D > PAGE ? D * AP : 2 * PAGE * AP; // halves
    static constexpr int bytes() { return 2 * (2 * PAGE * KP + products + C * AP) + 4 * (2 * PAGE * XP + 16 * XP + 2 * PAGE); }

    __device__ Slice(uint8_t* shared) {
        k = (half*)shared, q = k + PAGE * KP, ak = q + PAGE * KP, aq = ak + PAGE * AP, kt = ak, u = ak + products;
        ks = (float*)(u + C * AP), qs = ks + PAGE * XP, x = qs + PAGE * XP, g = x + 16 * XP, b = g + PAGE;
        w = threadIdx.x / 32, l = threadIdx.x % 32, gr = l / 4, qd = l % 4;
    }

    // load brings rows [0, n) of a page: keys, u, sums of decays; the rest becomes zero.
    __device__ void load(const half* pk, const half* pu, const float* pg, int n) {
        for (int i = threadIdx.x; i < PAGE * D / 8; i += THREADS) {
            int r = i / (D / 8), c = i % (D / 8) * 8;
            *(uint4*)(k + r * KP + c) = r < n ? *(const uint4*)(pk + r * D + c) : uint4{};
        }
        for (int i = threadIdx.x; i < C * PAGE / 8; i += THREADS) {
            int c = i / (PAGE / 8), r = i % (PAGE / 8) * 8;
            uint4 v = r < n ? *(const uint4*)(pu + c * PAGE + r) : uint4{};
            half* h = (half*)&v;
            for (int e = 0; e < 8; e++)
                if (r + e >= n) h[e] = __float2half_rn(0);
            *(uint4*)(u + c * AP + r) = v;
        }
        if (threadIdx.x < PAGE) g[threadIdx.x] = threadIdx.x < n ? pg[threadIdx.x] : 0;
    }

    // advance makes the state that the page ends with from the one that it began with. to may be from.
    __device__ void advance(float* to32, half* to16, const float* from) {
        float top = g[PAGE - 1], e = ex2(__fmul_rn(top, LOG2E));
        for (int i = threadIdx.x; i < PAGE * D; i += THREADS) {
            int j = i / D, d = i % D;
            kt[d * AP + j] = __float2half_rn(__fmul_rn(decay(top, g[j]), __half2float(k[j * KP + d])));
        }
        __syncthreads();
        for (int m = 0; m < C / 16; m++) {
            uint32_t a[PAGE / 16][4];
#pragma unroll
            for (int j = 0; j < PAGE / 16; j++) rows_of(a[j], u + m * 16 * AP + 16 * j, AP, gr, qd);
            for (int n = w; n < D / 8; n += WARPS) {
                float c[4] = {};
#pragma unroll
                for (int j = 0; j < PAGE / 16; j++) {
                    const half* at = kt + (n * 8 + gr) * AP + 16 * j + 2 * qd;
                    mma(c, a[j], pair(at), pair(at + 8));
                }
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    int at = (m * 16 + gr + i / 2 * 8) * D + n * 8 + 2 * qd;
                    float2 s = *(const float2*)(from + at);
                    s.x = __fmaf_rn(e, s.x, c[i]), s.y = __fmaf_rn(e, s.y, c[i + 1]);
                    *(float2*)(to32 + at) = s;
                    *(uint32_t*)(to16 + state_at(2 * m + i / 2, n / 2, D, l) + n % 2 * 2) = half2_bits(s.x, s.y);
                }
            }
        }
        __syncthreads();
    }

    // multiply computes, for blocks [from, to] of rows, what keys and queries have with the page's keys, and what they read from S.
    __device__ void multiply(int from, int to, const half* s16) {
        int blocks = to - from + 1;
        for (int task = w; task < blocks * (PAGE / 8 + C / 8); task += WARPS) { // a task is 16 rows and 8 columns
            int block = from + task % blocks, n = task / blocks, row = 16 * block;
            bool keys = n >= C / 8; // after S, which comes from further away
            n -= keys ? C / 8 : 0;
            if (keys && n * 8 > row + 15) continue; // of rows to come
            float c[4] = {}, d[4] = {};
#pragma unroll
            for (int j = 0; j < D / 16; j++) {
                uint32_t a[4], e[4];
                rows_of(a, k + row * KP + 16 * j, KP, gr, qd);
                rows_of(e, q + row * KP + 16 * j, KP, gr, qd);
                const half* at = k + (n * 8 + gr) * KP + 16 * j + 2 * qd;
                uint2 b = keys ? make_uint2(pair(at), pair(at + 8)) : *(const uint2*)(s16 + state_at(n, j, D, l));
                mma(c, a, b.x, b.y);
                mma(d, e, b.x, b.y);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = row + gr + i / 2 * 8, j = n * 8 + 2 * qd + i % 2;
                if (!keys) {
                    ks[r * XP + j] = c[i], qs[r * XP + j] = d[i];
                    continue;
                }
                float f = j <= r ? decay(g[r], g[j]) : 0;
                ak[r * AP + j] = __float2half_rn(j < r ? __fmul_rn(c[i], f) : 0);
                aq[r * AP + j] = __float2half_rn(j <= r ? __fmul_rn(d[i], f) : 0);
            }
        }
        __syncthreads();
    }

    // earlier is the products of a block's rows of a with u of blocks [0, to), for the eight columns from 8n on.
    __device__ void earlier(float (&c)[4], const half* a, int block, int to, int n) {
        for (int j = 0; j < to; j++) {
            uint32_t m[4];
            rows_of(m, a + 16 * block * AP + 16 * j, AP, gr, qd);
            const half* at = u + (n * 8 + gr) * AP + 16 * j + 2 * qd;
            mma(c, m, pair(at), pair(at + 8));
        }
    }

    // learn computes u of rows [first, end), of which `block` has some. values(r, c) is v of a row and a column.
    template <class V> __device__ void learn(int block, int first, int end, V values) {
        int row = 16 * block;
        for (int n = w; n < C / 8; n += WARPS) {
            float c[4] = {};
            earlier(c, ak, block, block, n);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int r = gr + i / 2 * 8, col = n * 8 + 2 * qd + i % 2;
                if (row + r < first || row + r >= end) continue;
                float e = ex2(__fmul_rn(g[row + r], LOG2E));
                x[r * XP + col] = __fsub_rn(__fmaf_rn(-e, ks[(row + r) * XP + col], values(row + r, col)), c[i]);
            }
        }
        __syncthreads();
        if (w == 0 && l < C) {
            float own[16];
#pragma unroll
            for (int r = 0; r < 16; r++) {
                own[r] = 0;
                if (row + r >= end) continue;
                if (row + r < first) {
                    own[r] = __half2float(u[l * AP + row + r]);
                    continue;
                }
                float v = x[r * XP + l];
#pragma unroll
                for (int j = 0; j < r; j++) v = __fmaf_rn(-__half2float(ak[(row + r) * AP + row + j]), own[j], v);
                half h = __float2half_rn(__fmul_rn(b[row + r], v));
                u[l * AP + row + r] = h;
                own[r] = __half2float(h);
            }
        }
        __syncthreads();
    }
};

template <int D, int C>
__device__ void delta_rule(float* out, uint8_t* memory, const half* qkv, const float* beta, const float* gates, float* scratch, const int* order,
                           const int* starts, const int* positions, const int* slots, const int* tables, int stride, const DeltaShape& shape, bool grouped) {
    extern __shared__ __align__(16) uint8_t shared[];
    Slice<D, C> t(shared);
    int head = blockIdx.y, sequence = blockIdx.z, column = blockIdx.x * C;
    int perKey = shape.valueHeads / shape.keyHeads, key = grouped ? head / perKey : head % shape.keyHeads;
    bool keeper = blockIdx.x == 0 && (grouped ? head % perKey == 0 : head < shape.keyHeads); // stores the key head's keys
    int begin = starts[sequence], rows = starts[sequence + 1] - begin, row0 = order[begin], position = positions[row0], width = shape.width();
    const int* table = tables + slots[row0] * stride;

    // A page that is not kept has its state here.
    float* spare32 = scratch + ((size_t)sequence * shape.valueHeads + head) * D * D * 3 / 2 + (size_t)column * D;
    half* spare16 = (half*)(scratch + ((size_t)sequence * shape.valueHeads + head) * D * D * 3 / 2 + D * D) + (size_t)column * D;
    size_t state = ((size_t)head * D + column) * D, keys = (size_t)key * PAGE * D, us = ((size_t)head * D + column) * PAGE, gs = (size_t)head * PAGE;

    const float* before = nullptr; // the state of the page before, whose rows are in shared memory
    if (position % PAGE == 0 && position > 0) {
        DeltaPage past(memory, shape, table[position / PAGE - 1]);
        t.load(past.k + keys, past.u + us, past.g + gs, PAGE);
        before = past.s32 + state;
        __syncthreads();
    }
    for (int i = 0; i < rows;) {
        int first = (position + i) % PAGE, n = min(PAGE - first, rows - i), end = first + n;
        DeltaPage page(memory, shape, table[(position + i) / PAGE]);
        float* s32 = page.kept() ? page.s32 + state : spare32;
        half* s16 = page.kept() ? page.s16 + state : spare16;
        if (before) {
            t.advance(s32, s16, before);
        } else if (first == 0) {
            for (int j = threadIdx.x; j < C * D; j += THREADS) s32[j] = 0, s16[j] = __float2half_rn(0);
        }
        if (first && threadIdx.x < C * D / 64) asm volatile("prefetch.global.L2 [%0];" ::"l"(s16 + threadIdx.x * 64));
        t.load(page.k + keys, page.u + us, page.g + gs, first);
        __syncthreads();
        for (int j = threadIdx.x; j < PAGE * D / 8; j += THREADS) {
            int r = j / (D / 8), c = j % (D / 8) * 8;
            bool own = r >= first && r < end;
            const half* from = own ? qkv + (size_t)order[begin + i + r - first] * width + c : nullptr;
            *(uint4*)(t.q + r * t.KP + c) = own ? *(const uint4*)(from + key * D) : uint4{};
            if (!own) continue;
            uint4 k = *(const uint4*)(from + (shape.keyHeads + key) * D);
            *(uint4*)(t.k + r * t.KP + c) = k;
            if (keeper && page.kept()) *(uint4*)(page.k + keys + r * D + c) = k;
        }
        if (threadIdx.x < n) {
            size_t at = (size_t)order[begin + i + threadIdx.x] * shape.valueHeads + head;
            t.g[first + threadIdx.x] = gates[at];
            t.b[first + threadIdx.x] = beta[at];
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            float sum = first ? t.g[first - 1] : 0;
            for (int r = first; r < end; r++) t.g[r] = sum = __fadd_rn(sum, t.g[r]);
        }
        __syncthreads();
        if (page.kept() && blockIdx.x == 0 && threadIdx.x >= first && threadIdx.x < end) page.g[gs + threadIdx.x] = t.g[threadIdx.x];

        int from = first / 16, to = (end - 1) / 16;
        t.multiply(from, to, s16);
        for (int block = from; block <= to; block++)
            t.learn(block, first, end, [&](int r, int c) {
                return __half2float(qkv[(size_t)order[begin + i + r - first] * width + (2 * shape.keyHeads + head) * D + column + c]);
            });
        for (int task = t.w; task < (to - from + 1) * (C / 8); task += WARPS) {
            int block = from + task % (to - from + 1), m = task / (to - from + 1);
            float c[4] = {};
            t.earlier(c, t.aq, block, block + 1, m);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int r = 16 * block + t.gr + e / 2 * 8, col = m * 8 + 2 * t.qd + e % 2;
                if (r < first || r >= end) continue;
                out[((size_t)order[begin + i + r - first] * shape.valueHeads + head) * D + column + col] =
                    __fmaf_rn(ex2(__fmul_rn(t.g[r], LOG2E)), t.qs[r * t.XP + col], c[e]);
            }
        }
        if (page.kept())
            for (int j = threadIdx.x; j < C * PAGE; j += THREADS)
                if (j % PAGE >= first && j % PAGE < end) page.u[us + j] = t.u[j / PAGE * t.AP + j % PAGE];
        __syncthreads();
        before = s32;
        i += n;
    }
}

#define DELTA(D, C)                                                                                                                          \
    KERNEL(THREADS) delta_rule_##D(float* out, uint8_t* memory, const half* qkv, const float* beta, const float* gates, float* scratch,          \
                               const int* order, const int* starts, const int* positions, const int* slots, const int* tables, int stride,   \
                               int layers, int layer, int keyHeads, int valueHeads, int taps, int grouped) {                                 \
        start();                                                                                                                             \
        delta_rule<D, C>(out, memory, qkv, beta, gates, scratch, order, starts, positions, slots, tables, stride,                            \
                         DeltaShape{layers, layer, keyHeads, valueHeads, D, taps}, grouped);                                                 \
    }
DELTA(16, 16)
DELTA(32, 32)
DELTA(64, 32)
DELTA(128, 32)
