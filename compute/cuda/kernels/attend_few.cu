// attend_few_DIM_FORMAT: attention of tiles of 16 (row, head) pairs: decoding, at the speed of memory.
//
//   warp 4     brings pages, keys and values apart, several ahead
//   warps 0-3  a page: scores of 16 keys each, the tile's maxima through shared memory, p likewise, outputs of a quarter of DIM
//
// Order    attend.cu's, bit for bit.
// Needs    work of at most 16 pairs (attend.cuh), sorted so that long ones come first. Pages before `fresh` are read while earlier
//          kernels still run. arrivals is zero before and after.
// Launch   grid (kvHeads*ceil(group/16), works), block 160, shared RING bytes. Formula: compute.Ops.Attention.
// Targets  sm_90a
#include "attend.cuh"

constexpr int M = 16, RING = 96 << 10;

__device__ __forceinline__ void warps_meet() { asm volatile("bar.sync 1,128;" ::: "memory"); }

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

// merge folds a tile's entries in ascending order, by 128 threads: brings as many as the ring holds; gets the factors of each from a
// scan of the maxima; then every four outputs are a chain of fma.
template <int D, class Store>
__device__ void merge(const Work& k, float* partials, uint8_t* ring, int bytes, uint64_t* come, int pairs, int t, Store store) {
    constexpr int G = (M * D / 4 + 127) / 128;
    int w = t / 32, lane = t % 32, size = (2 * M + pairs * D) * 4, most = bytes / (size + pairs * 16);
    float4* factors = (float4*)(ring + most * size); // [entry][pair]: u, v, sum
    float4 o[G] = {};
    float total[G] = {}, top[4] = {NONE, NONE, NONE, NONE}; // top: of pairs w, w+4, w+8, w+12
    for (int e0 = 0; e0 < k.total; e0 += most) {
        int count = min(most, k.total - e0);
        if (t == 0) barrier_expect(come, count * size);
        copies_see_writes();
        for (int e = t; e < count; e += 128) bulk_copy(ring + e * size, entry_at<M, D>(partials, k.base + e0 + e, blockIdx.x, gridDim.x), size, come);
        barrier_wait(come, e0 / most % 2);
#pragma unroll
        for (int r = 0; r < 4; r++)
            if (int h = w + 4 * r; h < pairs)
                for (int e = lane; e - lane < count; e += 32) {
                    const float* from = (const float*)(ring + e * size);
                    float m = e < count ? from[h] : NONE, now = m;
#pragma unroll
                    for (int step = 1; step < 32; step *= 2) {
                        float x = __shfl_up_sync(~0u, now, step);
                        if (lane >= step) now = fmaxf(now, x);
                    }
                    now = fmaxf(now, top[r]);
                    float before = __shfl_up_sync(~0u, now, 1);
                    Merge to(lane == 0 ? top[r] : before, m);
                    if (e < count) factors[e * pairs + h] = make_float4(to.u, to.v, from[M + h], 0);
                    top[r] = __shfl_sync(~0u, now, 31);
                }
        warps_meet();
#pragma unroll
        for (int i = 0; i < G; i++)
            if (int x = t + 128 * i; x * 4 < pairs * D) {
                const float4 *f = factors + x * 4 / D, *v = (const float4*)(ring + 2 * M * 4) + x;
#pragma unroll 4
                for (int e = 0; e < count; e++) {
                    float4 by = f[e * pairs], add = *(const float4*)((const uint8_t*)v + e * size);
                    o[i].x = __fmaf_rn(add.x, by.y, __fmul_rn(o[i].x, by.x)), o[i].y = __fmaf_rn(add.y, by.y, __fmul_rn(o[i].y, by.x));
                    o[i].z = __fmaf_rn(add.z, by.y, __fmul_rn(o[i].z, by.x)), o[i].w = __fmaf_rn(add.w, by.y, __fmul_rn(o[i].w, by.x));
                    total[i] = __fmaf_rn(by.z, by.y, __fmul_rn(total[i], by.x));
                }
            }
        warps_meet();
    }
#pragma unroll
    for (int i = 0; i < G; i++)
        if (int x = t + 128 * i; x * 4 < pairs * D) {
            float inv = __frcp_rn(total[i]);
            store(x * 4 / D, x * 4 % D, make_float4(__fmul_rn(o[i].x, inv), __fmul_rn(o[i].y, inv), __fmul_rn(o[i].z, inv), __fmul_rn(o[i].w, inv)));
        }
}

template <int D, class F>
__device__ void attend_few(half* out, const float* q, const uint8_t* kv, const int2* order, const int* tables, const Work* work, float* partials,
                           int* arrivals, int stride, int layers, int layer, int kvHeads, int group, int tile, float c, int window) {
    constexpr int TILE = F::tile(D), STAGES = RING / TILE < 16 ? RING / TILE : 16; // bytes of a page's keys
    constexpr int NT = (D / 8 + 3) / 4;                                           // n8 tiles of the output a warp
    extern __shared__ __align__(128) uint8_t ring[];
    __shared__ uint64_t full[STAGES], empty[STAGES], come;
    __shared__ float peak[4][M];
    __shared__ __align__(16) half probs[M][72];
    __shared__ int last;
    launch_next();
    Work k = load_work(work + blockIdx.y);
    if (k.rows == 0) return;
    int t = threadIdx.x, w = t / 32, lane = t % 32, g = lane / 4, l = lane % 4;
    int kh = blockIdx.x % kvHeads, h0 = blockIdx.x / kvHeads * 16, heads = min(16, group - h0), pairs = heads * k.rows;
    int width = kvHeads * group * D, kpad = padded(width);
    if (t == 0) {
        for (int i = 0; i < STAGES; i++) barrier_init(full + i, 1), barrier_init(empty + i, 4);
        barrier_init(&come, 1);
        barriers_ready();
    }
    __syncthreads();
    if (w == 4) {
        bool waited = false;
        int page = 0;
        for (int p = k.first; p < k.end; p++) {
            int i = p - k.first;
            if (i % 32 == 0 && p + lane < k.end) page = tables[(size_t)k.slot * stride + p + lane];
            const uint8_t* from = kv + page_at<F>(__shfl_sync(~0u, page, i % 32), layers, layer, kvHeads, kh, D);
            if (p >= k.fresh && !waited) wait_for_earlier(), copies_see_writes(), waited = true;
            if (lane == 0)
                for (int j = 2 * i; j < 2 * i + 2; j++) { // keys, values
                    int s = j % STAGES;
                    if (j >= STAGES) barrier_wait(empty + s, (j / STAGES - 1) % 2);
                    barrier_expect(full + s, TILE);
                    bulk_copy(ring + s * TILE, from + j % 2 * TILE, TILE, full + s);
                }
            __syncwarp();
        }
        if (!waited) wait_for_earlier();
        return;
    }
    Member mine[2] = {member(k, order, g, heads, window), member(k, order, g + 8, heads, window)};
    wait_for_earlier();
    auto store = [&](int i, int d, float a, float b) {
        if (mine[i].pos >= 0) store_pair(out, mine[i], (kh * group + h0 + mine[i].head) * D + d, tile, kpad, a, b);
    };
    if (blockIdx.x == 0 && k.entry == 0) store_zeros(out, k, order, width, kpad, tile, kpad, t, 128);
    if (k.slot < 0) return store_zeros(out, k, order, (kh * group + h0) * D, (kh * group + h0 + heads) * D, tile, kpad, t, 128);

    uint32_t a[D / 16][4];
    auto query = [&](const Member& m, int d) -> uint32_t {
        if (m.pos < 0) return 0;
        float2 v = *(const float2*)(q + (size_t)m.row * width + (kh * group + h0 + m.head) * D + d);
        return half2_bits(v.x, v.y);
    };
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
        a[j][0] = query(mine[0], 16 * j + 2 * l), a[j][1] = query(mine[1], 16 * j + 2 * l);
        a[j][2] = query(mine[0], 16 * j + 8 + 2 * l), a[j][3] = query(mine[1], 16 * j + 8 + 2 * l);
    }
    uint32_t sm = shared_address(ring);
    uint32_t probsOf = shared_address(&probs[lane % 16][lane / 16 * 8]);
    float o[NT][4] = {}, ot[NT][4] = {}, sum[4] = {}, total[2] = {}, m[2] = {NONE, NONE}, mt[2] = {NONE, NONE};
    int entry = k.entry, written = 0;
    auto store_entry = [&](const float (&o)[NT][4], float s0, float s1, float m0, float m1) {
        float* e = entry_at<M, D>(partials, k.base + entry + written++, blockIdx.x, gridDim.x);
        if (w == 0 && l == 0) e[g] = m0, e[g + 8] = m1, e[M + g] = s0, e[M + g + 8] = s1;
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (w + 4 * n < D / 8)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (g + 8 * i < pairs) *(float2*)(e + 2 * M + (g + 8 * i) * D + (w + 4 * n) * 8 + 2 * l) = make_float2(o[n][2 * i], o[n][2 * i + 1]);
    };
    for (int p = k.first; p < k.end; p++) {
        int j0 = 2 * (p - k.first), stage = j0 % STAGES;
        float s[2][4] = {}, top[2] = {NONE, NONE};
        barrier_wait(full + stage, j0 / STAGES % 2);
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            uint32_t b[4];
            load_keys<D>(F(), b, sm + stage * TILE, ring + stage * TILE, j, w, lane);
            mma(s[0], a[j], b[0], b[1]), mma(s[1], a[j], b[2], b[3]);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + stage);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int key = p * PAGE + w * 16 + n * 8 + 2 * l + i % 2;
                if (key > mine[i / 2].pos || key < mine[i / 2].from) s[n][i] = NONE;
                top[i / 2] = fmaxf(top[i / 2], s[n][i]);
            }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 1));
            top[i] = fmaxf(top[i], __shfl_xor_sync(~0u, top[i], 2));
            if (l == 0) peak[w][g + 8 * i] = top[i];
        }
        warps_meet();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int h = g + 8 * i;
            float most = fmaxf(fmaxf(peak[0][h], peak[1][h]), fmaxf(peak[2][h], peak[3][h]));
            float now = fmaxf(m[i], __fmul_rn(most, c)), z = base_of(now);
#pragma unroll
            for (int n = 0; n < 2; n++)
                *(uint32_t*)&probs[h][w * 16 + n * 8 + 2 * l] = half2_bits(ex2(__fmaf_rn(s[n][2 * i], c, -z)), ex2(__fmaf_rn(s[n][2 * i + 1], c, -z)));
            if (now != m[i]) {
                float e = ex2(__fsub_rn(m[i], z));
#pragma unroll
                for (int n = 0; n < NT; n++) o[n][2 * i] = __fmul_rn(o[n][2 * i], e), o[n][2 * i + 1] = __fmul_rn(o[n][2 * i + 1], e);
                sum[2 * i] = __fmul_rn(sum[2 * i], e), m[i] = now;
            }
        }
        stage = (j0 + 1) % STAGES;
        barrier_wait(full + stage, (j0 + 1) / STAGES % 2);
        warps_meet();
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            uint32_t f[2][4];
            load_tiles(f[0], probsOf + 32 * j), load_tiles(f[1], probsOf + 32 * j + 32);
#pragma unroll
            for (int n = 0; n < NT; n++)
                if (w + 4 * n < D / 8) {
                    uint32_t b[4];
                    load_values<D>(F(), b, sm + stage * TILE, ring + stage * TILE, j, w + 4 * n, lane);
                    mma(o[n], f[0], b[0], b[1]), mma(o[n], f[1], b[2], b[3]);
                }
            mma(sum, f[0], 0x3c003c00u, 0x3c003c00u), mma(sum, f[1], 0x3c003c00u, 0x3c003c00u);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + stage);
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
    if (k.total > 1) {
        if (entry == 0) store_entry(ot, total[0], total[1], mt[0], mt[1]);
        warps_meet();
        if (t == 0) last = arrived(arrivals + k.base * gridDim.x + blockIdx.x, written, k.total);
        warps_meet();
        if (!last) return;
        __threadfence();
        merge<D>(k, partials, ring, STAGES * TILE, &come, pairs, t, [&](int h, int d, float4 v) {
            int2 r = order[k.at + h % k.rows];
            half* to = out + operand_at(r.x, (kh * group + h0 + h / k.rows) * D + d, tile, kpad);
            *(uint2*)to = make_uint2(half2_bits(v.x, v.y), half2_bits(v.z, v.w));
        });
        return;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float inv = __frcp_rn(total[i]);
#pragma unroll
        for (int n = 0; n < NT; n++)
            if (w + 4 * n < D / 8) store(i, (w + 4 * n) * 8 + 2 * l, __fmul_rn(ot[n][2 * i], inv), __fmul_rn(ot[n][2 * i + 1], inv));
    }
}

#define ATTEND_FEW(D, name, F)                                                                                                              \
    KERNEL(160) attend_few_##D##_##name(half* out, const float* q, const uint8_t* kv, const int2* order, const int* tables, const Work* work, \
                                        float* partials, int* arrivals, int stride, int layers, int layer, int kvHeads, int group, int tile, \
                                        float c, int window) {                                                                              \
        attend_few<D, F>(out, q, kv, order, tables, work, partials, arrivals, stride, layers, layer, kvHeads, group, tile, c, window);       \
    }
EACH_WIDTH(ATTEND_FEW)
