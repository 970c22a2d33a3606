// matmul_hopper_LAYOUT_TILE: y = x·Wᵀ for operands of tiles of TILE rows (8 to 128), up to three weights of one layout at once.
//
//       K →  segment 0 (512)   segment 1         a block: two warpgroups, 64 outputs each, dequantise W in registers
//          ┌─────────────────┬─────────────┬─ ─  and multiply by TILE rows of x; one warp brings W to shared memory,
//    128   │ 64 64 .. 64     │             │     one x, stages of KT*64 of K ahead. W does not wait for the kernels
//   of W   └─────────────────┴─────────────┴─ ─  before this one.
//                  C0        +      C1     + ..  = y/(row's scale), in this order
//
// Order    matmul.cu's: k16 steps ascending within a segment of 512 of K, segments added ascending. Up to 16 rows by mma, more by
//          wgmma, which continues the same chain (wgmma.cuh).
// Shares   Blocks that share a tile (cut.cuh) put partial sums into `partials`: [tile][segment][2 warpgroups][TILE/8][128
//          threads][4]; the block that begins the tile one for all of its segments, at the last of them. Then each adds up its part
//          of the rows. A sum that has not come is ABSENT, which no sum is, and whoever has read one makes it ABSENT again: so
//          the buffer is filled with it once, and there are no counters to wait for.
// Needs    Blocks start in order, and those that share a tile (neighbours, at most its segments) run at once: a block puts all of its
//          sums before it waits for others'. x, W, y as matmul.cu; unused siblings have n = 0.
// Launch   grid of any number of blocks, block 128*2 + 64 (TILE 128: + 128), shared stages*KT*(128*TILE + 2*bytes of a tile of W).
// Targets  sm_90a
#include "cut.cuh"
#include "layouts.cuh"
#include "operand.cuh"
#include "wgmma.cuh"

constexpr int SEGMENT = 8;      // tiles of K
constexpr int GROUPS = 2;       // warpgroups that multiply
constexpr int MOST_STAGES = 8;
constexpr uint32_t ABSENT = 0xffffffff; // a NaN; the tensor cores and additions yield 0x7fffffff

// One of the weights, and its y [rows, n].
struct Sibling {
    float* y;
    const uint8_t* w;
    const float* scales;
    int n;
};

struct Matmul {
    Sibling sibling[3];
    int outputs[3]; // tiles of 128
    int row_tiles;

    __device__ int tiles() const { return (outputs[0] + outputs[1] + outputs[2]) * row_tiles; }
    // find gives the weight of a tile, the tile's first output and its tile of rows.
    __device__ Sibling find(int tile, int& output, int& row_tile) const {
        int o = tile / row_tiles;
        row_tile = tile - o * row_tiles;
        if (o < outputs[0]) return output = o * 64 * GROUPS, sibling[0];
        o -= outputs[0];
        if (o < outputs[1]) return output = o * 64 * GROUPS, sibling[1];
        return output = (o - outputs[1]) * 64 * GROUPS, sibling[2];
    }
};

template <class L, int T>
struct Plan {
    static constexpr bool wide = T == 128; // needs more registers than an equal share
    static constexpr int KT = T <= 32 ? 2 : 1;
    static constexpr int x = T * TILE_K * 2, w = L::bytes, stage = KT * (x + GROUPS * w); // bytes
    static constexpr int threads = 128 * GROUPS + (wide ? 128 : 64), blocks = T <= 32 ? 2 : 1;
    static constexpr int slot = GROUPS * 64 * T; // floats
};

__device__ __forceinline__ void load_matrices(uint32_t (&b)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
}

// multiply is c += (a tile of W)*(T rows of x), or c = that if not begun; c[4*j+i] are rows 8*j .. of x. The caller clears c for mma.
template <class L, int T>
__device__ __forceinline__ void multiply(float (&c)[T / 2], const uint8_t* w, uint32_t x, int t, bool begun) {
    L tile(w, t);
    if constexpr (T > 16) {
        uint32_t a[4][4];
#pragma unroll
        for (int ks = 0; ks < 4; ks++) tile.fragment(ks, a[ks]);
        wgmma_begin();
#pragma unroll
        for (int ks = 0; ks < 4; ks++) wgmma<T>(c, a[ks], x + ks * T * 32, T * 16, begun || ks > 0);
        wgmma_commit();
        wgmma_wait<0>();
    } else if constexpr (T == 16) {
        uint32_t row = x + (t / 8 % 2) * T * 16 + (t / 16 % 2 * 8 + t % 8) * 16; // four 8x8: k by bit 3, rows by bit 4 of the lane
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            uint32_t a[4], b[4];
            load_matrices(b, row + ks * T * 32);
            tile.fragment(ks, a);
            mma(*(float(*)[4])c, a, b[0], b[1]);
            mma(*(float(*)[4])(c + 4), a, b[2], b[3]);
        }
    } else {
        uint32_t b[2][4];
        load_matrices(b[0], x + t % 32 * 16);
        load_matrices(b[1], x + t % 32 * 16 + 512);
#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
            uint32_t a[4];
            tile.fragment(ks, a);
            mma(c, a, b[ks / 2][ks % 2 * 2], b[ks / 2][ks % 2 * 2 + 1]);
        }
    }
}

__device__ __forceinline__ void put(float* to, float a, float b, float c, float d) {
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0],{%1,%2,%3,%4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}
__device__ __forceinline__ float4 get(const float* from) {
    float4 v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from) : "memory");
    return v;
}
__device__ __forceinline__ bool absent(float4 v) {
    return __float_as_uint(v.x) == ABSENT || __float_as_uint(v.y) == ABSENT || __float_as_uint(v.z) == ABSENT || __float_as_uint(v.w) == ABSENT;
}

// bring is a warp that fills stages: with x, or with W.
template <class L, int T>
__device__ void bring(const Matmul& mm, const Cut& cut, const uint8_t* x, bool weights, int ktiles, int stages, uint8_t* smem, uint64_t* full, uint64_t* empty) {
    using P = Plan<L, T>;
    int stage = 0, parity = 1;
    bool ready = weights; // weights wait for nobody
    for (Runs run(cut); run.next();) {
        int output, row_tile;
        Sibling s = mm.find(run.tile, output, row_tile);
        int k = run.from * SEGMENT, end = min(ktiles, run.to * SEGMENT);
        const uint8_t* from = weights ? s.w + ((size_t)(output / 64) * ktiles + k) * P::w : x + ((size_t)row_tile * ktiles + k) * P::x;
        bool both = s.n - output > 64; // the last tile may lack its second half
        if (!ready) wait_for_earlier(), ready = true;
        for (; k < end; k += P::KT) {
            int n = min(min(P::KT, SEGMENT - k % SEGMENT), end - k);
            uint8_t* to = smem + stage * P::stage;
            barrier_wait(empty + stage, parity);
            if (weights) {
                barrier_expect(full + stage, n * P::w << both);
                bulk_copy(to + P::KT * P::x, from, n * P::w, full + stage);
                if (both) bulk_copy(to + P::KT * (P::x + P::w), from + (size_t)ktiles * P::w, n * P::w, full + stage);
                from += n * P::w;
            } else {
                barrier_expect(full + stage, n * P::x);
                bulk_copy(to, from, n * P::x, full + stage);
                from += n * P::x;
            }
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

// Output is where a thread's sums of a tile go: rows r + 8*j and the next one, outputs o and o + 8. The scales are on their way
// while sums are awaited.
struct Output {
    float *y, scale[2];
    int n, o, r, rows;
    __device__ __forceinline__ Output(const Matmul& mm, int tile, int tile_rows, int group, int t, int rows_, float unscale) : rows(rows_) {
        Sibling s = mm.find(tile, o, r);
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
template <int T>
__device__ void add_shared(const Cut& cut, int tile, const Output& out, float* partials, int group, int t) {
    constexpr int MANY = 8, slot = GROUPS * 64 * T; // loads on their way
    int unit = tile * cut.segments, one = cut.block_of(unit), last = cut.block_of(unit + cut.segments - 1);
    if (one == last) return;
    int first = cut.begin(one + 1) - unit - 1; // where the beginning's sum lies
    float none = __uint_as_float(ABSENT);
    for (int j = last - blockIdx.x; j < T / 8; j += last - one + 1) {
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

template <class L, int T>
__device__ void matmul(const Matmul& mm, const uint8_t* x, float* partials, int ktiles, int rows, bool whole, int stages, float unscale) {
    using P = Plan<L, T>;
    extern __shared__ __align__(1024) uint8_t smem[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; i++) barrier_init(full + i, 2), barrier_init(empty + i, 4 * GROUPS);
        barriers_ready();
    }
    __syncthreads();
    launch_next();
    const Cut cut{mm.tiles(), (ktiles + SEGMENT - 1) / SEGMENT, (int)gridDim.x, whole};
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (group == GROUPS) {
        if constexpr (P::wide) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
        if (t % 32 || t >= 64) return;
        bring<L, T>(mm, cut, x, t > 0, ktiles, stages, smem, full, empty);
        return;
    }
    if constexpr (P::wide) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
    // The tiles that this block shares, at most two.
    int begins = (cut.begin(blockIdx.x + 1) - 1) / cut.segments, ends = cut.begin(blockIdx.x) / cut.segments;
    wait_for_earlier();
    float c[T / 2], total[T / 2];
    auto share = [&](int tile, int segment, const float (&v)[T / 2]) {
        float* to = partials + ((size_t)cut.place(tile) * cut.segments + segment) * P::slot + group * 64 * T + t * 4;
#pragma unroll
        for (int j = 0; j < T / 2; j += 4) put(to + j * 128, v[j], v[j + 1], v[j + 2], v[j + 3]);
    };
    int stage = 0, parity = 0;
    for (Runs run(cut); run.next();) {
        for (int s = run.from; s < run.to; s++) {
            if constexpr (T <= 16) {
#pragma unroll
                for (int j = 0; j < T / 2; j++) c[j] = 0;
            }
            bool begun = false;
            for (int left = min(SEGMENT, ktiles - s * SEGMENT); left > 0; left -= P::KT) {
                barrier_wait(full + stage, parity);
                const uint8_t* w = smem + stage * P::stage + P::KT * (P::x + group * P::w);
                uint32_t xs = shared_address(smem + stage * P::stage);
#pragma unroll
                for (int j = 0; j < P::KT; j++)
                    if (j < left) multiply<L, T>(c, w + j * P::w, xs + j * P::x, t, begun || j > 0);
                begun = true;
                __syncwarp();
                if (t % 32 == 0) barrier_arrive(empty + stage);
                if (++stage == stages) stage = 0, parity ^= 1;
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
    if (whole) return;
    for (int tile = begins; tile >= ends; tile = tile == ends ? -1 : ends) {
        add_shared<T>(cut, tile, Output(mm, tile, T, group, t, rows, unscale), partials, group, t);
    }
}

#define MATMUL(name, L, T)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(Plan<L, T>::threads, Plan<L, T>::blocks)                                                 \
        matmul_hopper_##name##_##T(float* y0, const uint8_t* w0, const float* s0, int n0, float* y1, const uint8_t* w1, const float* s1,  \
                                   int n1, float* y2, const uint8_t* w2, const float* s2, int n2, const uint8_t* x, float* partials,      \
                                   int ktiles, int rows, int whole, int stages, float unscale) {                                          \
        constexpr int wide = 64 * GROUPS;                                                                                                 \
        const Matmul mm{{{y0, w0, s0, n0}, {y1, w1, s1, n1}, {y2, w2, s2, n2}},                                                           \
                        {(n0 + wide - 1) / wide, (n1 + wide - 1) / wide, (n2 + wide - 1) / wide},                                         \
                        (rows + T - 1) / T};                                                                                              \
        matmul<L, T>(mm, x, partials, ktiles, rows, T == 128 && whole, stages, unscale);                                                  \
    }
#define EACH_TILE(name, L) MATMUL(name, L, 8) MATMUL(name, L, 16) MATMUL(name, L, 32) MATMUL(name, L, 64) MATMUL(name, L, 128)
EACH_LAYOUT(EACH_TILE)
