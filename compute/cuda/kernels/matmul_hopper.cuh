// A matmul on Hopper, as one block of many sees it: y = x·Wᵀ for operands of tiles of T rows (8 to 128), up to four weights of one
// layout at once.
//
//       K →  segment 0 (512)   segment 1         a block: G warpgroups (2, or 4), 64 outputs each, dequantise W in registers
//          ┌─────────────────┬─────────────┬─ ─  and multiply by T rows of x; one warp brings W to shared memory,
//    64*G  │ 64 64 .. 64     │             │     one x, each through a ring of its own. W does not wait for what is computed
//   of W   └─────────────────┴─────────────┴─ ─  before.
//                  C0        +      C1     + ..  = y/(row's scale), in this order
//
// Order    matmul.cu's: k16 steps ascending within a segment of 512 of K, segments added ascending. Up to 16 rows by mma, more by
//          wgmma, which continues the same chain (wgmma.cuh).
// Shares   Blocks that share a tile (cut.cuh) put partial sums into `partials`: [tile][segment][G warpgroups][T/8][128
//          threads][4]; the block that begins the tile one for all of its segments, at the last of them. Then each adds up its part
//          of the rows. A sum that has not come is ABSENT, which no sum is, and whoever has read one makes it ABSENT again: so
//          the buffer is filled with it once, and there are no counters to wait for. From 32 rows on that costs more than W: blocks have
//          whole tiles as long as there are tiles for most of them, and share the rest.
// Needs    Blocks start in order, and those that share a tile (neighbours, at most its segments) run at once: a block puts all of its
//          sums before it waits for others'. x, W, y as matmul.cu; unused siblings have n = 0.
#pragma once
#include "cut.cuh"
#include "layouts.cuh"
#include "mail.cuh"
#include "operand.cuh"
#include "ring.cuh"
#include "wgmma.cuh"

constexpr int SEGMENT = 8;      // tiles of K

// One of the weights, and its y [rows, n].
struct Sibling {
    float* y;
    const uint8_t* w;
    const float* scales;
    int n;
};

template <int G>
struct Matmul {
    Sibling sibling[4];
    int row_tiles;

    __device__ int outputs(int i) const { return (sibling[i].n + 64 * G - 1) / (64 * G); } // tiles of 64*G
    __device__ int tiles() const { return (outputs(0) + outputs(1) + outputs(2) + outputs(3)) * row_tiles; }
    // find gives the weight of a tile, the tile's first output and its tile of rows.
    __device__ const Sibling& find(int tile, int& output, int& row_tile) const {
        int o = tile / row_tiles;
        row_tile = tile - o * row_tiles;
        int i = 0;
        while (o >= outputs(i)) o -= outputs(i++);
        output = o * 64 * G;
        return sibling[i];
    }
};

// Plan is how the rings look: KT tiles of K of x a stage, of W KW of them of each of the 4*G strips; strips lie apart in memory.
template <class L, int T, int G>
struct Plan {
    static constexpr bool wide = T >= 64; // needs more registers than an equal share
    static constexpr int KT = T <= 32 ? 2 : 1, KW = PIECE<L>;
    static constexpr int x = T * TILE_K * 2, rows = KT * x, strip = KW * L::strip, weights = 4 * G * strip; // bytes of a tile and of stages
    static constexpr int held = T > 64 || T == 64 && weights <= 48 << 10 ? 3 : 2;                            // stages of W
    static constexpr int threads = 128 * G + (wide ? 128 : 64), blocks = T <= 32 ? 2 : 1;
    static constexpr int slot = G * 64 * T; // floats
};

__device__ __forceinline__ void load_matrices(uint32_t (&b)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
}

// Link is a strip of W, 16 outputs of a tile, and T rows of x, and multiplies them: c += W*x, or c = that if not begun; c[4*j+i] are rows 8*j .. of x. The caller
// clears c for mma. Of up to 16 rows the operands come into registers when it is made, so that one waits while another multiplies.
template <class L, int T>
struct Link {
    L tile;
    uint32_t b[T == 8 ? 2 : T == 16 ? 4 : 1][4]; // B of the four k16 steps
    uint32_t x;

    __device__ __forceinline__ Link(const uint8_t* strip, uint32_t x_, int t) : tile(strip, t % 32), x(x_) {
        if constexpr (T == 8) {
            load_matrices(b[0], x + t % 32 * 16);
            load_matrices(b[1], x + t % 32 * 16 + 512);
        } else if constexpr (T == 16) {
            uint32_t row = x + (t / 8 % 2) * T * 16 + (t / 16 % 2 * 8 + t % 8) * 16; // four 8x8: k by bit 3, rows by bit 4 of the lane
#pragma unroll
            for (int ks = 0; ks < 4; ks++) load_matrices(b[ks], row + ks * T * 32);
        }
    }

    __device__ __forceinline__ void multiply(float (&c)[T / 2], bool begun) const {
        if constexpr (T > 16) {
            uint32_t a[4][4];
#pragma unroll
            for (int ks = 0; ks < 4; ks++) tile.fragment(ks, a[ks]);
            wgmma_begin();
#pragma unroll
            for (int ks = 0; ks < 4; ks++) wgmma<T>(c, a[ks], x + ks * T * 32, T * 16, begun || ks > 0);
            wgmma_commit();
            wgmma_wait<0>();
        } else {
#pragma unroll
            for (int ks = 0; ks < 4; ks++) {
                uint32_t a[4];
                tile.fragment(ks, a);
                if constexpr (T == 8) {
                    mma(c, a, b[ks / 2][ks % 2 * 2], b[ks / 2][ks % 2 * 2 + 1]);
                } else {
                    mma(*(float(*)[4])c, a, b[ks][0], b[ks][1]);
                    mma(*(float(*)[4])(c + 4), a, b[ks][2], b[ks][3]);
                }
            }
        }
    }
};

// Output is where a thread's sums of a tile go: rows r + 8*j and the next one, outputs o and o + 8. The scales are on their way
// while sums are awaited.
struct Output {
    float *y, scale[2];
    int n, o, r, rows;
    template <int G>
    __device__ __forceinline__ Output(const Matmul<G>& mm, int tile, int tile_rows, int group, int t, int rows_, float unscale) : rows(rows_) {
        const Sibling& s = mm.find(tile, o, r);
        r = r * tile_rows + 2 * (t % 4), o += group * 64 + t / 32 * 16 + t % 32 / 4;
        y = s.y, n = s.n;
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = o + 8 * h < n ? __fmul_rn(s.scales[o + 8 * h], unscale) : 0;
    }
    __device__ __forceinline__ void write(int j, float4 v) const {
        float* to = y + (size_t)(r + 8 * j) * n + o;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (o + 8 * h >= n) continue;
            if (r + 8 * j < rows) to[8 * h] = __fmul_rn(h ? v.z : v.x, scale[h]);
            if (r + 8 * j + 1 < rows) to[n + 8 * h] = __fmul_rn(h ? v.w : v.y, scale[h]);
        }
    }
};

// add_shared adds up this block's part of a tile that blocks share: of its row groups j those with j = last block - this, modulo
// the blocks.
template <int T, int G>
__device__ __forceinline__ void add_shared(const Cut& cut, int tile, const Output& out, float* partials, int group, int t) {
    constexpr int MANY = 8, slot = G * 64 * T; // loads on their way
    int unit = (tile - cut.whole) * cut.segments, one = cut.block_of(unit), last = cut.block_of(unit + cut.segments - 1);
    if (one == last) return;
    int first = cut.begin(one + 1) - unit - 1; // where the beginning's sum lies
    float none = __uint_as_float(ABSENT);
    for (int j = last - cut.block; j < T / 8; j += last - one + 1) {
        float* from = partials + (size_t)cut.place(tile) * cut.segments * slot + group * 64 * T + j * 512 + t * 4;
        float4 sum;
        for (int s = first; s < cut.segments; s += MANY) {
            float4 v[MANY];
            bool missing;
            do {
                missing = false;
#pragma unroll
                for (int i = 0; i < MANY; i++)
                    if (s + i < cut.segments) v[i] = get(from + (s + i) * slot);
#pragma unroll
                for (int i = 0; i < MANY; i++) missing |= s + i < cut.segments && absent(v[i]);
            } while (missing);
#pragma unroll
            for (int i = 0; i < MANY; i++)
                if (s + i < cut.segments) {
                    put(from + (s + i) * slot, none, none, none, none);
                    if (s + i == first) sum = v[i];
                    else sum = make_float4(__fadd_rn(sum.x, v[i].x), __fadd_rn(sum.y, v[i].y), __fadd_rn(sum.z, v[i].z), __fadd_rn(sum.w, v[i].w));
                }
        }
        out.write(j, sum);
    }
}

// Share is one block's share of a matmul.
template <class L, int T, int G>
struct Share {
    using P = Plan<L, T, G>;
    const Matmul<G>& mm;
    const Cut cut;
    int ktiles;

    __device__ Share(const Matmul<G>& mm_, int block, int blocks, int ktiles_, int whole)
        : mm(mm_), cut{mm_.tiles(), (ktiles_ + SEGMENT - 1) / SEGMENT, blocks, block, whole}, ktiles(ktiles_) {}

    // bring_weights fills a ring with W. One thread.
    __device__ __forceinline__ void bring_weights(Ring& ring) const {
        for (Runs run(cut); run.next();) {
            int output, row_tile;
            const Sibling& s = mm.find(run.tile, output, row_tile);
            const int groups = min(G, (s.n - output + 63) / 64); // the last tile may lack some
            for (int k = run.from * SEGMENT, end = min(ktiles, run.to * SEGMENT); k < end; k += P::KW) {
                int n = min(P::KW, end - k);
                ring.wait_empty();
                barrier_expect(ring.full(), n * L::bytes * groups);
                const uint8_t* from = s.w + (size_t)(output / 64) * ktiles * L::bytes;
                for (int g = 0; g < groups; g++, from += (size_t)ktiles * L::bytes) {
                    uint8_t* to = ring.at() + 4 * g * P::strip;
                    if (n == RUN) { // its strips are neighbours in memory, too
                        bulk_copy_once(to, from + strip_at<L>(0, k, ktiles), n * L::bytes, ring.full());
                        continue;
                    }
#pragma unroll
                    for (int i = 0; i < 4; i++) bulk_copy_once(to + i * P::strip, from + strip_at<L>(i, k, ktiles), n * L::strip, ring.full());
                }
                ring.next();
            }
        }
    }

    // bring_rows fills a ring with x; ready() is called before the first. One thread.
    template <class Ready>
    __device__ __forceinline__ void bring_rows(Ring& ring, const uint8_t* x, Ready ready) const {
        bool waited = false;
        for (Runs run(cut); run.next();) {
            if (!waited) ready(), waited = true;
            int k = run.from * SEGMENT, end = min(ktiles, run.to * SEGMENT);
            const uint8_t* from = x + ((size_t)(run.tile % mm.row_tiles) * ktiles + k) * P::x;
            while (k < end) {
                int n = min(P::KT, end - k);
                ring.wait_empty();
                barrier_expect(ring.full(), n * P::x);
                bulk_copy(ring.at(), from, n * P::x, ring.full());
                ring.next();
                k += n, from += n * P::x;
            }
        }
    }

    // multiply computes the share: warpgroup `group` of G, its thread t. ready() is called before anything is written.
    template <class Ready>
    __device__ __forceinline__ void multiply(Ring& xs, Ring& ws, float* partials, int rows, float unscale, int group, int t, Ready ready) const {
        float c[T / 2], total[T / 2];
        ready();
        auto share = [&](int tile, int segment, const float (&v)[T / 2]) {
            float* to = partials + ((size_t)cut.place(tile) * cut.segments + segment) * P::slot + group * 64 * T + t * 4;
#pragma unroll
            for (int j = 0; j < T / 2; j += 4) put(to + j * 128, v[j], v[j + 1], v[j + 2], v[j + 3]);
        };
        for (Runs run(cut); run.next();) {
            for (int s = run.from; s < run.to; s++) {
                if constexpr (T <= 16) {
#pragma unroll
                    for (int j = 0; j < T / 2; j++) c[j] = 0;
                }
                bool begun = false;
                for (int k = 0, tiles = min(SEGMENT, ktiles - s * SEGMENT); k < tiles; k += P::KW) {
                    ws.wait_full();
                    const uint8_t* w = ws.at() + (4 * group + t / 32) * P::strip;
#pragma unroll
                    for (int j = 0; j < P::KW; j += P::KT) {
                        if (k + j >= tiles) break;
                        xs.wait_full();
                        uint32_t x = shared_address(xs.at());
                        const Link<L, T> one(w + j * L::strip, x, t);
                        if (P::KT == 2 && k + j + 1 < tiles) {
                            const Link<L, T> two(w + (j + 1) * L::strip, x + P::x, t);
                            one.multiply(c, begun), two.multiply(c, true);
                        } else {
                            one.multiply(c, begun);
                        }
                        begun = true;
                        xs.release(t % 32);
                    }
                    ws.release(t % 32);
                }
                if (run.from > 0) share(run.tile, s, c);
                else {
#pragma unroll
                    for (int j = 0; j < T / 2; j++) total[j] = s == 0 ? c[j] : __fadd_rn(total[j], c[j]);
                }
            }
            if (run.from > 0) continue;
            if (run.to < cut.segments) {
                share(run.tile, run.to - 1, total);
                continue;
            }
            Output out(mm, run.tile, T, group, t, rows, unscale);
#pragma unroll
            for (int j = 0; j < T / 8; j++) out.write(j, make_float4(total[4 * j], total[4 * j + 1], total[4 * j + 2], total[4 * j + 3]));
        }
        // The tiles that this block shares, at most two.
        const int first = cut.begin(cut.block), last = cut.begin(cut.block + 1) - 1;
        if (first > last) return;
        int begins = cut.whole + last / cut.segments, ends = cut.whole + first / cut.segments;
        for (int tile = begins; tile >= ends; tile = tile == ends ? -1 : ends)
            add_shared<T, G>(cut, tile, Output(mm, tile, T, group, t, rows, unscale), partials, group, t);
    }
};
