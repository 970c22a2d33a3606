// Attention of tiles of 16 (row, head) pairs on Hopper, as one block of many sees it: decoding, at the speed of memory.
//
//   two warps    bring pages, keys and values apart: one those that are there before the step, one those that it writes
//   USERS warps  a page: scores, 16 keys each of the first four; the tile's maxima through shared memory, p likewise; outputs of a
//                part of DIM each
//
// Order    attend.cu's, bit for bit.
// Needs    work of at most 16 pairs (attend.cuh), sorted so that long ones come first. arrivals is zero before and after.
#pragma once
#include "attend.cuh"
#include "mail.cuh"
#include "opened.cuh"
#include "ring.cuh"

constexpr int M = 16; // pairs

// Attention is what all works of a launch share.
struct Attention {
    half* out;
    const float* q;
    uint8_t* kv;
    const int2* order;
    const int* tables;
    const Work* work;
    float* partials;
    int* arrivals;
    int stride, layers, layer, kvHeads, group, tile;
    float c;
    int window;
    float bend;         // cap/scale of scores; 0: none
    const float* sinks; // of the heads; null: none
    int blocks;         // a work: a KV head, and 16 heads of its group
    const float* gates; // rows [heads][2*D] of which each second D values open what the head attended; null: none
};

// let_through is two values that a head attended, from column d on, as its gates let them through, rounded as open_gates does.
template <int D>
__device__ __forceinline__ float2 let_through(const Attention& a, const Member& m, int head, int d, float x, float y) {
    float2 g;
    do g = get_two(a.gates + ((size_t)m.row * a.kvHeads * a.group + head) * 2 * D + D + d);
    while (absent(g));
    half2 v = __floats2half2_rn(x, y);
    return make_float2(opened(__low2float(v), g.x), opened(__high2float(v), g.y));
}

// FewScratch is shared memory of the using warps.
template <int D>
struct __align__(16) FewScratch {
    static constexpr int room = M * (D + 8) / 8; // of factors
    union {
        half queries[M][D + 8];
        float4 factors[room]; // [entry][pair]: u, v, sum
    };
    half probs[M][72];
    float peak[4][M]; // in merge the first: maxima of totals
    int last;
};

__device__ __forceinline__ void load_tiles(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_tiles(uint32_t (&r)[2], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1},[%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}

// load_keys gives B of link j of the scores for the warp's two n8 tiles of keys; load_values B of links j and j+1 of the outputs for one n8
// tile of DIM. `at` is a tile's address in shared memory, `tile` the same as a pointer.
template <int D>
__device__ __forceinline__ void load_keys(F16, uint32_t (&b)[4], uint32_t at, const uint8_t*, int j, int w, int lane) {
    load_tiles(b, at + ((2 * j + lane / 8 % 2) * PAGE + w * 16 + lane / 16 * 8 + lane % 8) * 16);
}

template <int D>
__device__ __forceinline__ void load_values(F16, uint32_t (&b)[4], uint32_t at, const uint8_t*, int j, int n, int lane) {
    load_tiles(b, at + ((2 * j + lane / 8) * D + n * 8 + lane % 8) * 16);
}

template <int D>
__device__ __forceinline__ void load_keys(E4M3, uint32_t (&b)[4], uint32_t at, const uint8_t*, int j, int w, int lane) {
    uint32_t r[2];
    load_tiles(r, at + (j * PAGE + w * 16 + lane % 16) * 16);
    b[0] = E4M3::pair(r[0]), b[1] = E4M3::pair(r[0] >> 16), b[2] = E4M3::pair(r[1]), b[3] = E4M3::pair(r[1] >> 16);
}

template <int D>
__device__ __forceinline__ void load_values(E4M3, uint32_t (&b)[4], uint32_t at, const uint8_t*, int j, int n, int lane) {
    uint32_t r[2];
    load_tiles(r, at + ((j + lane / 8 % 2) * D + n * 8 + lane % 8) * 16);
    b[0] = E4M3::pair(r[0]), b[1] = E4M3::pair(r[0] >> 16), b[2] = E4M3::pair(r[1]), b[3] = E4M3::pair(r[1] >> 16);
}

template <int D>
__device__ __forceinline__ void load_keys(Q8_0, uint32_t (&b)[4], uint32_t at, const uint8_t* tile, int j, int w, int lane) {
    uint32_t r[2];
    load_tiles(r, at + (j * PAGE + w * 16 + lane % 16) * 16);
    const half* s = (const half*)(tile + PAGE * D) + j / 2 * PAGE + w * 16 + lane / 4;
    half2 s0 = __half2half2(s[0]), s1 = __half2half2(s[8]);
    b[0] = Q8_0::pair(r[0], s0), b[1] = Q8_0::pair(r[0] >> 16, s0), b[2] = Q8_0::pair(r[1], s1), b[3] = Q8_0::pair(r[1] >> 16, s1);
}

template <int D>
__device__ __forceinline__ void load_values(Q8_0, uint32_t (&b)[4], uint32_t at, const uint8_t* tile, int j, int n, int lane) {
    uint32_t r[2];
    load_tiles(r, at + ((j + lane / 8 % 2) * D + n * 8 + lane % 8) * 16);
    const half2* s = (const half2*)(tile + PAGE * D) + (n / 4 * PAGE + 16 * j) / 2 + lane % 4;
    b[0] = Q8_0::pair(r[0], s[0]), b[1] = Q8_0::pair(r[0] >> 16, s[4]), b[2] = Q8_0::pair(r[1], s[8]), b[3] = Q8_0::pair(r[1] >> 16, s[12]);
}

// bring_pages fills the stages with the pages of a work, keys and values apart: those that the warp is to bring, by mine(page), which may
// wait until the page is there. A whole warp calls it.
template <int D, class F, class Mine>
__device__ __forceinline__ void bring_pages(Ring& ring, const Attention& a, const Work& k, int block, Mine mine) {
    constexpr int TILE = F::tile(D);
    int lane = threadIdx.x % 32, page = 0;
    for (int p = k.first; p < k.end; p++) {
        int i = p - k.first;
        if (i % 32 == 0 && p + lane < k.end) page = a.tables[(size_t)k.slot * a.stride + p + lane];
        const uint8_t* from = a.kv + page_at<F>(__shfl_sync(~0u, page, i % 32), a.layers, a.layer, a.kvHeads, block % a.kvHeads, D);
        bool brings = mine(p);
        for (int j = 0; j < 2; j++) {
            if (lane == 0) {
                ring.wait_empty();
                if (brings) {
                    barrier_expect(ring.full(), TILE);
                    bulk_copy(ring.at(), from + j * TILE, TILE, ring.full());
                } else {
                    barrier_arrive(ring.full());
                }
            }
            ring.next();
        }
        __syncwarp();
    }
}

// merge folds a tile's entries in ascending order, by all threads: gets the factors of as many as there is room for from a scan of the
// maxima; then every two outputs are a chain of fma. sinks are of the tile's heads. store(pair, column, a, b).
template <int D, int USERS, class Store>
__device__ __forceinline__ void merge(const Attention& a, const Work& k, int block, const float* sinks, FewScratch<D>& s, int pairs, int t, Store store) {
    constexpr int G = (M * D / 2 + 32 * USERS - 1) / (32 * USERS), AHEAD = 24, EARLY = 12;
    int w = t / 32, lane = t % 32, most = s.room / pairs;
    auto entry = [&](int e) { return (const float*)entry_at<M, D>(a.partials, k.base + e, block, a.blocks); };
    float2 o[G] = {};
    constexpr int R = M / USERS; // pairs of a warp
    float total[G] = {}, top[R]; // top: of pairs w, w+USERS
    for (float& t : top) t = NONE;
    auto output = [&](int e, int x) { return __ldcg((const float2*)(entry(e) + 2 * M) + x); };
    float2 early[EARLY]; // the first outputs of the first entries, which are on their way while maxima are looked at
#pragma unroll
    for (int j = 0; j < EARLY; j++) early[j] = j < k.total && t * 2 < pairs * D ? output(j, t) : float2{};
    for (int e0 = 0; e0 < k.total; e0 += most) {
        int count = min(most, k.total - e0);
#pragma unroll
        for (int r = 0; r < R; r++)
            if (int h = w + USERS * r; h < pairs)
                for (int e = lane; e - lane < count; e += 32) {
                    float m = NONE, sum = 0;
                    if (e < count) m = __ldcg(entry(e0 + e) + h), sum = __ldcg(entry(e0 + e) + M + h);
                    float now = m;
#pragma unroll
                    for (int step = 1; step < 32; step *= 2) {
                        float x = __shfl_up_sync(~0u, now, step);
                        if (lane >= step) now = fmaxf(now, x);
                    }
                    now = fmaxf(now, top[r]);
                    float before = __shfl_up_sync(~0u, now, 1);
                    Merge to(lane == 0 ? top[r] : before, m);
                    if (e < count) s.factors[e * pairs + h] = make_float4(to.u, to.v, sum, 0);
                    top[r] = __shfl_sync(~0u, now, 31);
                    if (lane == 0) s.peak[0][h] = top[r];
                }
        meet<32 * USERS>();
#pragma unroll
        for (int i = 0; i < G; i++)
            if (int x = t + 32 * USERS * i; x * 2 < pairs * D) {
                const float4* f = s.factors + x * 2 / D;
                for (int e = 0; e < count; e += AHEAD) {
                    float2 add[AHEAD];
#pragma unroll
                    for (int j = 0; j < AHEAD; j++)
                        add[j] = i == 0 && j < EARLY && e0 + e == 0 ? early[j] : e + j < count ? output(e0 + e + j, x) : float2{};
#pragma unroll
                    for (int j = 0; j < AHEAD; j++)
                        if (e + j < count) {
                            float4 by = f[(e + j) * pairs];
                            o[i].x = __fmaf_rn(add[j].x, by.y, __fmul_rn(o[i].x, by.x)), o[i].y = __fmaf_rn(add[j].y, by.y, __fmul_rn(o[i].y, by.x));
                            total[i] = __fmaf_rn(by.z, by.y, __fmul_rn(total[i], by.x));
                        }
                }
            }
        meet<32 * USERS>();
    }
#pragma unroll
    for (int i = 0; i < G; i++)
        if (int x = t + 32 * USERS * i; x * 2 < pairs * D) {
            int h = x * 2 / D;
            float inv = closing(total[i], s.peak[0][h], sinks ? sinks + h / k.rows : nullptr);
            store(h, x * 2 % D, __fmul_rn(o[i].x, inv), __fmul_rn(o[i].y, inv));
        }
}

// Given is where queries come from that are turned already, and pages that have their keys and values.
struct Given {
    const float* q;

    // query gives a head's D values, by a warp.
    template <int D>
    __device__ __forceinline__ const float* query(const Attention& a, const Member& m, int head, int lane) const { return q + ((size_t)m.row * a.kvHeads * a.group + head) * D; }
    // complete is called for a page that this step writes, with its tiles in shared memory, before it is used.
    template <int D>
    __device__ __forceinline__ void complete(const Attention&, const Work&, int page, int kh, bool appends, uint8_t* keys, uint8_t* values, int t) const {}
    static constexpr bool completes = false;
    // merge folds a tile's entries.
    template <int D, int USERS, class Store>
    __device__ __forceinline__ void merge(const Attention& a, const Work& k, int block, const float* sinks, FewScratch<D>& s, int pairs, int t, Store store) const {
        ::merge<D, USERS>(a, k, block, sinks, s, pairs, t, store);
    }
};

// attend_pages is a work's attention in one of its blocks, by threads t of the using warps, which all call it.
template <int D, int USERS, class F, class From>
__device__ __forceinline__ void attend_pages(Ring& ring, const Attention& a, const Work& k, int block, FewScratch<D>& s, const From& in, int t) {
    constexpr int NT = (D / 8 + USERS - 1) / USERS; // n8 tiles of the output a warp
    int w = t / 32, lane = t % 32, g = lane / 4, l = lane % 4;
    int kh = block % a.kvHeads, h0 = block / a.kvHeads * 16, heads = min(16, a.group - h0), pairs = heads * k.rows;
    int width = a.kvHeads * a.group * D, kpad = padded(width), window = a.window;
    if (block == 0 && k.entry == 0) store_zeros(a.out, k, a.order, width, kpad, a.tile, kpad, t, 32 * USERS);
    if (k.slot < 0) return store_zeros(a.out, k, a.order, (kh * a.group + h0) * D, (kh * a.group + h0 + heads) * D, a.tile, kpad, t, 32 * USERS);

#pragma unroll 1
    for (int i = w; i < M; i += USERS) {
        Member m = member(k, a.order, i, heads, window);
        const float* from = m.pos < 0 ? nullptr : in.template query<D>(a, m, kh * a.group + h0 + m.head, lane);
        for (int d = 2 * lane; d < D; d += 64) {
            float2 v = from ? *(const float2*)(from + d) : make_float2(0, 0);
            *(uint32_t*)&s.queries[i][d] = half2_bits(v.x, v.y);
        }
        __syncwarp(); // before the next is put where this was
    }
    auto complete = [&](int p) {
        if (!From::completes || p < k.fresh) return;
        Ring keys = ring, values = ring;
        values.next();
        keys.wait_full(), values.wait_full();
        in.template complete<D>(a, k, p, kh, h0 == 0, keys.at(), values.at(), t);
    };
    Member mine[2] = {member(k, a.order, g, heads, window), member(k, a.order, g + 8, heads, window)};
    uint32_t queriesOf = shared_address(&s.queries[lane % 16][lane / 16 * 8]), probsOf = shared_address(&s.probs[lane % 16][lane / 16 * 8]);
    float o[NT][4] = {}, ot[NT][4] = {}, sum[4] = {}, total[2] = {}, m[2] = {NONE, NONE}, mt[2] = {NONE, NONE};
    int entry = k.entry, written = 0;
    auto store_entry = [&](const float (&o)[NT][4], float s0, float s1, float m0, float m1) {
        float* e = entry_at<M, D>(a.partials, k.base + entry + written++, block, a.blocks);
        if (w == 0 && l == 0) {
            if (g < pairs) put(e + g, m0), put(e + M + g, s0);
            if (g + 8 < pairs) put(e + g + 8, m1), put(e + M + g + 8, s1);
        }
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (w + USERS * n < D / 8)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (g + 8 * i < pairs) put(e + 2 * M + (g + 8 * i) * D + (w + USERS * n) * 8 + 2 * l, o[n][2 * i], o[n][2 * i + 1]);
    };
    for (int p = k.first; p < k.end; p++) {
        complete(p);
        if (p == k.first || From::completes && p >= k.fresh) meet<32 * USERS>(); // queries are there, and the page is whole
        float x[2][4] = {};
        ring.wait_full();
        if (w < 4) {
            float top[2] = {NONE, NONE};
#pragma unroll 4
            for (int j = 0; j < D / 16; j++) {
                uint32_t q[4], b[4];
                load_tiles(q, queriesOf + 32 * j);
                load_keys<D>(F(), b, shared_address(ring.at()), ring.at(), j, w, lane);
                mma(x[0], q, b[0], b[1]), mma(x[1], q, b[2], b[3]);
            }
            if (a.bend > 0) {
                const Bend bent(a.bend);
#pragma unroll
                for (int i = 0; i < 8; i++) x[i / 4][i % 4] = bent(x[i / 4][i % 4]);
            }
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int key = p * PAGE + w * 16 + n * 8 + 2 * l + i % 2;
                    if (key > mine[i / 2].pos || key < mine[i / 2].from) x[n][i] = NONE;
                    top[i / 2] = fmaxf(top[i / 2], x[n][i]);
                }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 1));
                top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 2));
                if (l == 0) s.peak[w][g + 8 * i] = top[i];
            }
        }
        ring.release(lane);
        meet<32 * USERS>();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = g + 8 * i;
            float most = fmaxf(fmaxf(s.peak[0][h], s.peak[1][h]), fmaxf(s.peak[2][h], s.peak[3][h]));
            float now = fmaxf(m[i], __fmul_rn(most, a.c)), z = base_of(now);
            if (w < 4)
#pragma unroll
                for (int n = 0; n < 2; n++)
                    *(uint32_t*)&s.probs[h][w * 16 + n * 8 + 2 * l] =
                        half2_bits(ex2(__fmaf_rn(x[n][2 * i], a.c, -z)), ex2(__fmaf_rn(x[n][2 * i + 1], a.c, -z)));
            if (now != m[i]) {
                float e = ex2(__fsub_rn(m[i], z));
#pragma unroll
                for (int n = 0; n < NT; n++) o[n][2 * i] = __fmul_rn(o[n][2 * i], e), o[n][2 * i + 1] = __fmul_rn(o[n][2 * i + 1], e);
                sum[2 * i] = __fmul_rn(sum[2 * i], e), m[i] = now;
            }
        }
        ring.wait_full();
        meet<32 * USERS>();
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            uint32_t f[2][4];
            load_tiles(f[0], probsOf + 32 * j), load_tiles(f[1], probsOf + 32 * j + 32);
#pragma unroll
            for (int n = 0; n < NT; n++)
                if (w + USERS * n < D / 8) {
                    uint32_t b[4];
                    load_values<D>(F(), b, shared_address(ring.at()), ring.at(), j, w + USERS * n, lane);
                    mma(o[n], f[0], b[0], b[1]), mma(o[n], f[1], b[2], b[3]);
                }
            mma(sum, f[0], 0x3c003c00u, 0x3c003c00u), mma(sum, f[1], 0x3c003c00u, 0x3c003c00u);
        }
        ring.release(lane);
        if (!split_ends(p) && p + 1 < k.end) continue;
        if (entry > 0) store_entry(o, sum[0], sum[2], m[0], m[1]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (entry == 0) {
                Merge to(mt[i], m[i]);
#pragma unroll
                for (int n = 0; n < NT; n++) ot[n][2 * i] = to(ot[n][2 * i], o[n][2 * i]), ot[n][2 * i + 1] = to(ot[n][2 * i + 1], o[n][2 * i + 1]);
                total[i] = to(total[i], sum[2 * i]), mt[i] = to.max;
            }
#pragma unroll
            for (int n = 0; n < NT; n++) o[n][2 * i] = o[n][2 * i + 1] = 0;
            sum[2 * i] = sum[2 * i + 1] = 0, m[i] = NONE;
        }
    }
    auto store = [&](const Member& m, int d, float x, float y) {
        const int head = kh * a.group + h0 + m.head;
        float2 v = a.gates ? let_through<D>(a, m, head, d, x, y) : make_float2(x, y);
        store_pair(a.out, m, head * D + d, a.tile, kpad, v.x, v.y);
    };
    if (k.total > 1) {
        if (entry == 0) store_entry(ot, total[0], total[1], mt[0], mt[1]);
        meet<32 * USERS>();
        if (!From::completes) {
            if (t == 0) {
                Quiet quiet;
                s.last = arrived(a.arrivals + k.base * a.blocks + block, written, k.total);
            }
            meet<32 * USERS>();
            if (!s.last) return;
        } else if (k.entry + written < k.total) { // the last work waits for the others
            return;
        }
        in.template merge<D, USERS>(a, k, block, a.sinks ? a.sinks + kh * a.group + h0 : nullptr, s, pairs, t, [&](int h, int d, float x, float y) {
            store(member(k, a.order, h, heads, window), d, x, y);
        });
        return;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int head = kh * a.group + h0 + mine[i].head;
        float inv = closing(total[i], mt[i], a.sinks ? a.sinks + head : nullptr);
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (w + USERS * n < D / 8 && mine[i].pos >= 0) {
                int d = (w + USERS * n) * 8 + 2 * l;
                float x = __fmul_rn(ot[n][2 * i], inv), y = __fmul_rn(ot[n][2 * i + 1], inv);
                if (a.gates) *(uint32_t*)&s.queries[g + 8 * i][d] = half2_bits(x, y);
                else store_pair(a.out, mine[i], head * D + d, a.tile, kpad, x, y);
            }
    }
    if (!a.gates) return;
    meet<32 * USERS>(); // the rest in a loop: here registers are few
#pragma unroll 1
    for (int x = 2 * t; x < pairs * D; x += 64 * USERS) {
        float2 v = __half22float2(*(const half2*)&s.queries[x / D][x % D]);
        store(member(k, a.order, x / D, heads, window), x % D, v.x, v.y);
    }
}
