// attend_many_DIM_FORMAT: attention of tiles of 128 (row, head) pairs, 64 where DIM > 128: prompts, at the speed of wgmma.
//
//   warpgroup 2     brings pages, keys and values apart, several ahead: warp 0 by bulk copies; where the format has 8 bits into a ring of
//                   their own, from which warps 1-3 make tiles of f16
//   warpgroups 0-1  64 pairs each; where DIM > 128 the same 64 pairs, and half of DIM of their outputs: its scores are computed
//                   twice, so that outputs and totals stay in registers
//
//   tensor cores   q·k(p+1)  p(p)·v(p)   q·k(p+2)  p(p+1)·v(p+1)
//   other units                softmax(p+1)          softmax(p+2)
//
// Order    attend.cu's, bit for bit.
// Needs    work of at most M pairs (attend.cuh), sorted so that long ones come first. arrivals is zero before and after.
// Launch   grid (kvHeads, works), block 384, shared: as Rings says (attendForms of
//          attention_plan.go). Formula: compute.Ops.Attention.
// Targets  sm_90a
#include "attend.cuh"
#include "wgmma.cuh"

__device__ __forceinline__ void groups_meet() { asm volatile("bar.sync 1,256;" ::: "memory"); }

template <bool B> struct Constant { static constexpr bool value = B; };

// Rings are the tiles that a block holds: of f16, ready for wgmma, and as stored, where that is something else.
template <int D, class F> struct Rings {
    static constexpr bool WIDENS = true;
    static constexpr int TILE = F16::tile(D), STAGES = D > 128 ? 4 : 6, RAW = F::tile(D), RAWS = 3;
};
template <int D> struct Rings<D, F16> {
    static constexpr bool WIDENS = false;
    static constexpr int TILE = F16::tile(D), STAGES = (192 << 10) / TILE < 8 ? (192 << 10) / TILE : 8, RAW = TILE, RAWS = 0;
};

// widen turns 16 codes along k, `a`-th of their row or column b, into f16. keys: b is a position, k is d; values: the other way round.
__device__ __forceinline__ void widen(E4M3, uint32_t (&h)[8], const uint4& codes, const uint8_t*, int, int, bool) {
    const uint32_t* c = (const uint32_t*)&codes;
#pragma unroll
    for (int i = 0; i < 4; i++) h[i] = E4M3::pair(c[i]), h[4 + i] = E4M3::pair(c[i] >> 16);
}
__device__ __forceinline__ void widen(Q8_0, uint32_t (&h)[8], const uint4& codes, const uint8_t* scales, int a, int b, bool keys) {
    const uint32_t* c = (const uint32_t*)&codes;
    if (keys) {
        half2 s = __half2half2(((const half*)scales)[a / 2 * PAGE + b]);
#pragma unroll
        for (int i = 0; i < 4; i++) h[i] = Q8_0::pair(c[i], s), h[4 + i] = Q8_0::pair(c[i] >> 16, s);
    } else {
        const half2* s = (const half2*)scales + (b / 32 * PAGE + 16 * a) / 2;
#pragma unroll
        for (int i = 0; i < 4; i++) h[i] = Q8_0::pair(c[i], s[i]), h[4 + i] = Q8_0::pair(c[i] >> 16, s[4 + i]);
    }
}
__device__ __forceinline__ void widen(F16, uint32_t (&)[8], const uint4&, const uint8_t*, int, int, bool) {}

template <int D, class F>
__device__ void attend_many(half* out, const float* q, const uint8_t* kv, const int2* order, const int* tables, const Work* work, float* partials,
                            int* arrivals, int stride, int layers, int layer, int kvHeads, int group, int tile, float c, int window, float bend, const float* sinks) {
    constexpr bool HALVES = D > 128;
    constexpr int M = HALVES ? 64 : 128, N = HALVES ? D / 2 : D; // pairs of the tile; outputs of a warpgroup
    using R = Rings<D, F>;
    constexpr int TILE = R::TILE, STAGES = R::STAGES, QUERIES = HALVES ? M * D * 2 : 0;
    extern __shared__ __align__(128) uint8_t ring[]; // STAGES tiles of f16; where HALVES, the queries as an operand; RAWS tiles as stored
    uint8_t* raws = ring + STAGES * TILE + QUERIES;
    __shared__ uint64_t full[STAGES], empty[STAGES], come[R::RAWS + 1], gone[R::RAWS + 1]; // come and gone: of raws
    __shared__ __align__(128) half ones[64];
    __shared__ int last;
    launch_next();
    Work k = load_work(work + blockIdx.y);
    if (k.rows == 0) return;
    int wg = threadIdx.x / 128, t = threadIdx.x % 128, w = t / 32, g = t % 32 / 4, l = t % 4, kh = blockIdx.x;
    int width = kvHeads * group * D, kpad = padded(width);
    if (threadIdx.x < 64) ones[threadIdx.x] = __float2half_rn(1);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) barrier_init(full + i, R::WIDENS ? 3 : 1), barrier_init(empty + i, 2);
        for (int i = 0; i < R::RAWS; i++) barrier_init(come + i, 1), barrier_init(gone + i, 3);
        barriers_ready();
    }
    copies_see_writes();
    __syncthreads();
    // A block has 384*168 registers, and who wants more than are left waits for ever: 2*240 + 24 = 2*232 + 40 = 3*168.
    if (wg == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(R::WIDENS ? 40 : 24));
        wait_for_earlier();
        int lane = t % 32;
        if (w == 0) {
            copies_see_writes();
            constexpr int SLOTS = R::WIDENS ? R::RAWS : STAGES;
            uint64_t *came = R::WIDENS ? come : full, *left = R::WIDENS ? gone : empty;
            uint8_t* to = R::WIDENS ? raws : ring;
            int page = 0;
            for (int p = k.first; p < k.end; p++) {
                int i = p - k.first;
                if (i % 32 == 0 && p + lane < k.end) page = tables[(size_t)k.slot * stride + p + lane];
                const uint8_t* from = kv + page_at<F>(__shfl_sync(~0u, page, i % 32), layers, layer, kvHeads, kh, D);
                if (lane == 0)
                    for (int j = 2 * i; j < 2 * i + 2; j++) { // keys, values
                        int s = j % SLOTS;
                        if (j >= SLOTS) barrier_wait(left + s, (j / SLOTS - 1) % 2);
                        barrier_expect(came + s, R::RAW);
                        bulk_copy(to + s * R::RAW, from + j % 2 * R::RAW, R::RAW, came + s);
                    }
                __syncwarp();
            }
        } else if constexpr (R::WIDENS) {
            for (int j = 0; j < 2 * (k.end - k.first); j++) {
                int from = j % R::RAWS, to = j % STAGES, columns = j % 2 == 0 ? PAGE : D;
                barrier_wait(come + from, j / R::RAWS % 2);
                if (j >= STAGES) barrier_wait(empty + to, (j / STAGES - 1) % 2);
                for (int x = t - 32; x < PAGE * D / 16; x += 96) {
                    int a = x / columns, b = x % columns;
                    uint32_t h[8];
                    widen(F(), h, ((const uint4*)(raws + from * R::RAW))[x], raws + from * R::RAW + PAGE * D, a, b, j % 2 == 0);
                    uint4* at = (uint4*)(ring + to * TILE) + 2 * a * columns + b;
                    at[0] = make_uint4(h[0], h[1], h[2], h[3]), at[columns] = make_uint4(h[4], h[5], h[6], h[7]);
                }
                copies_see_writes(); // wgmma reads as copies do
                __syncwarp();
                if (lane == 0) barrier_arrive(full + to), barrier_arrive(gone + from);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(R::WIDENS ? 232 : 240));
    int m0 = (HALVES ? 0 : wg * 64) + w * 16 + g, d0 = HALVES ? wg * N : 0;
    Member mine[2] = {member(k, order, m0, group, window), member(k, order, m0 + 8, group, window)};
    int lowest = order[k.at].y, highest = order[k.at + k.rows - 1].y;
    wait_for_earlier();
    if (blockIdx.x == 0 && k.entry == 0) store_zeros(out, k, order, width, kpad, tile, kpad, threadIdx.x, 256);

    // The queries: in registers, or an operand that both warpgroups use.
    constexpr int QN = HALVES ? 1 : D / 16;
    uint32_t a[QN][4];
    uint32_t sm = shared_address(ring), queries = sm + STAGES * TILE;
    auto query = [&](const Member& m, int d) -> uint32_t {
        if (m.pos < 0) return 0;
        float2 v = *(const float2*)(q + (size_t)m.row * width + (kh * group + m.head) * D + d);
        return half2_bits(v.x, v.y);
    };
    if constexpr (HALVES) {
        for (int d = d0 + 2 * l; d < d0 + N; d += 8)
            for (int i = 0; i < 2; i++) *(uint32_t*)(ring + STAGES * TILE + (d / 8 * M + m0 + 8 * i) * 16 + 4 * l) = query(mine[i], d);
        copies_see_writes();
        groups_meet();
    } else {
#pragma unroll
        for (int j = 0; j < QN; j++) {
            a[j][0] = query(mine[0], 16 * j + 2 * l), a[j][1] = query(mine[1], 16 * j + 2 * l);
            a[j][2] = query(mine[0], 16 * j + 8 + 2 * l), a[j][3] = query(mine[1], 16 * j + 8 + 2 * l);
        }
    }
    float o[N / 2], ot[N / 2], s[32], sum[4], total[2] = {}, m[2] = {NONE, NONE}, mt[2] = {NONE, NONE};
#pragma unroll
    for (int i = 0; i < N / 2; i++) ot[i] = 0;
    int entry = k.entry, written = 0;

    auto scores = [&](int stage) { // s = q·k, begun
        uint32_t keys = sm + stage * TILE;
#pragma unroll
        for (int j = 0; j < D / 16; j++)
            if constexpr (HALVES) wgmma_64(s, operand(queries + j * (2 * M * 16), M * 16), operand(keys + j * (2 * PAGE * 16), PAGE * 16), j > 0);
            else wgmma_64(s, a[j], operand(keys + j * (2 * PAGE * 16), PAGE * 16), j > 0);
        wgmma_commit();
    };
    // s becomes p, m moves on; e is what the split's outputs so far are to be multiplied by.
    auto softmax = [&](int p, float (&e)[2]) {
        if (bend > 0) {
            const Bend bent(bend);
#pragma unroll
            for (int i = 0; i < 32; i++) s[i] = bent(s[i]);
        }
        if (p * PAGE + PAGE - 1 > lowest || (window > 0 && p * PAGE < highest + 1 - window))
#pragma unroll
            for (int i = 0; i < 32; i++) {
                int key = p * PAGE + i / 4 * 8 + 2 * l + i % 2;
                if (key > mine[i / 2 % 2].pos || key < mine[i / 2 % 2].from) s[i] = NONE;
            }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float top = NONE;
#pragma unroll
            for (int n = 0; n < 8; n++) top = fmaxf(top, fmaxf(s[4 * n + 2 * i], s[4 * n + 2 * i + 1]));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
            top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
            float now = fmaxf(m[i], __fmul_rn(top, c)), z = base_of(now);
            e[i] = now == m[i] ? 1 : ex2(__fsub_rn(m[i], z));
            m[i] = now;
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int j = 4 * n + 2 * i; j < 4 * n + 2 * i + 2; j++) s[j] = ex2(__fmaf_rn(s[j], c, -z));
        }
    };
    auto store_entry = [&](const float (&o)[N / 2], float s0, float s1, const float (&m)[2]) {
        float* x = entry_at<M, D>(partials, k.base + entry + written++, blockIdx.x, gridDim.x);
        if (d0 == 0 && l == 0) x[m0] = m[0], x[m0 + 8] = m[1], x[M + m0] = s0, x[M + m0 + 8] = s1;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (mine[i].pos >= 0) *(float2*)(x + 2 * M + (m0 + 8 * i) * D + d0 + 8 * n + 2 * l) = make_float2(o[4 * n + 2 * i], o[4 * n + 2 * i + 1]);
    };

    float e[2];
    bool fresh = true; // o and sum are of no page yet
    barrier_wait(full, 0);
    wgmma_begin();
    scores(0);
    wgmma_wait<0>();
    if (t == 0) barrier_arrive(empty);
    softmax(k.first, e);
    auto turn = [&](int p, auto more) { // page p, and the scores of the next one if there is one
        constexpr bool MORE = decltype(more)::value;
        int jv = 2 * (p - k.first) + 1, jk = jv + 1; // of this page's values, the next one's keys
        bool ended = !MORE || split_ends(p);
        uint32_t f[4][4];
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) f[j][i] = half2_bits(s[8 * j + 2 * i], s[8 * j + 2 * i + 1]);
        if constexpr (MORE) barrier_wait(full + jk % STAGES, jk / STAGES % 2);
        barrier_wait(full + jv % STAGES, jv / STAGES % 2);
        wgmma_begin();
        if constexpr (MORE) scores(jk % STAGES);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            wgmma<N>(o, f[j], sm + jv % STAGES * TILE + (2 * j * D + d0) * 16, D * 16, !fresh || j > 0);
            wgmma<8>(sum, f[j], shared_address(ones), 0, !fresh || j > 0);
        }
        wgmma_commit();
        fresh = false;
        float was[2] = {m[0], m[1]};
        if constexpr (MORE) {
            wgmma_wait<1>();
            if (t == 0) barrier_arrive(empty + jk % STAGES);
            if (ended) m[0] = m[1] = NONE;
            softmax(p + 1, e);
        }
        wgmma_wait<0>();
        if (t == 0) barrier_arrive(empty + jv % STAGES);
        if (ended) {
            if (entry > 0) store_entry(o, sum[0], sum[2], was);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (entry == 0) {
                    Merge to(mt[i], was[i]);
#pragma unroll
                    for (int n = 0; n < N / 8; n++)
#pragma unroll
                        for (int j = 4 * n + 2 * i; j < 4 * n + 2 * i + 2; j++) ot[j] = to(ot[j], o[j]);
                    total[i] = to(total[i], sum[2 * i]), mt[i] = to.max;
                }
            }
            fresh = true;
        } else if (__any_sync(~0u, e[0] != 1 || e[1] != 1)) {
#pragma unroll
            for (int i = 0; i < N / 2; i++) o[i] = __fmul_rn(o[i], e[i / 2 % 2]);
#pragma unroll
            for (int i = 0; i < 4; i++) sum[i] = __fmul_rn(sum[i], e[i / 2]);
        }
    };
    for (int p = k.first; p + 1 < k.end; p++) turn(p, Constant<true>());
    turn(k.end - 1, Constant<false>());
    if (k.total > 1) {
        if (entry == 0) store_entry(ot, total[0], total[1], mt);
        groups_meet();
        if (threadIdx.x == 0) last = arrived(arrivals + k.base * gridDim.x + blockIdx.x, written, k.total);
        groups_meet();
        if (!last) return;
        __threadfence();
        total[0] = total[1] = 0, mt[0] = mt[1] = NONE;
#pragma unroll
        for (int i = 0; i < N / 2; i++) ot[i] = 0;
        struct Entry {
            float2 o[2][N / 8];
            float max[2], sum[2];
        } even, odd; // one is folded while the next one comes
        auto load = [&](Entry& x, int entry) {
            const float* from = entry_at<M, D>(partials, k.base + entry, blockIdx.x, gridDim.x);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (mine[i].pos < 0) continue;
                x.max[i] = __ldcg(from + m0 + 8 * i), x.sum[i] = __ldcg(from + M + m0 + 8 * i);
#pragma unroll
                for (int n = 0; n < N / 8; n++) x.o[i][n] = __ldcg((const float2*)(from + 2 * M + (m0 + 8 * i) * D + d0 + 8 * n + 2 * l));
            }
        };
        auto fold = [&](const Entry& x) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                Merge to(mt[i], x.max[i]);
#pragma unroll
                for (int n = 0; n < N / 8; n++)
                    ot[4 * n + 2 * i] = to(ot[4 * n + 2 * i], x.o[i][n].x), ot[4 * n + 2 * i + 1] = to(ot[4 * n + 2 * i + 1], x.o[i][n].y);
                total[i] = to(total[i], x.sum[i]), mt[i] = to.max;
            }
        };
        load(even, 0);
        for (int x = 0; x < k.total; x += 2) {
            if (x + 1 < k.total) load(odd, x + 1);
            fold(even);
            if (x + 2 < k.total) load(even, x + 2);
            if (x + 1 < k.total) fold(odd);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (mine[i].pos < 0) continue;
        const int head = kh * group + mine[i].head;
        float inv = closing(total[i], mt[i], sinks ? sinks + head : nullptr);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
            store_pair(out, mine[i], head * D + d0 + 8 * n + 2 * l, tile, kpad, __fmul_rn(ot[4 * n + 2 * i], inv),
                       __fmul_rn(ot[4 * n + 2 * i + 1], inv));
    }
}

#define ATTEND_MANY(D, name, F)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(384, 1) attend_many_##D##_##name(                                                          \
        half* out, const float* q, const uint8_t* kv, const int2* order, const int* tables, const Work* work, float* partials, int* arrivals, \
        int stride, int layers, int layer, int kvHeads, int group, int tile, float c, int window, float bend, const float* sinks) {        \
        attend_many<D, F>(out, q, kv, order, tables, work, partials, arrivals, stride, layers, layer, kvHeads, group, tile, c, window, bend, sinks); \
    }
EACH_WIDTH(ATTEND_MANY)
