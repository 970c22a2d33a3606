// Attention of queries, keys and values as matmuls leave them: what qk_norm_rope and append_kv do, where it is used, and ungated and open_gates if
// queries come with gates.
//
// A block turns its queries, and the keys of its pages that this step writes: into the tiles in shared memory, with their values, and, if the
// row is its work's and it has the first heads, into the page in memory, for steps to come. No other block of this step reads them there.
#pragma once
#include "append.cuh"
#include "attend_few.cuh"
#include "mail.cuh"
#include "rope.cuh"
#include "thread.cuh"

struct Turned {
    const float *q, *k, *v, *qgain, *kgain, *table; // rows [heads][D], of queries with gates [heads][2*D]; a gain or the table may be null
    int dims, neighbour;
    float eps;
    float* room; // of shared memory: 2*D floats of each warp, or 128 entries of 16 pairs

    static constexpr bool completes = true;

    // turned brings a head and turns it.
    template <int D>
    __device__ __forceinline__ void turned(float* to, const float* from, const float* gain, int position, int lane) const {
        const float* cs = table ? table + (size_t)position * dims : nullptr;
        if (cs && 32 * lane < dims) asm volatile("prefetch.global.L1 [%0];" ::"l"(cs + 32 * lane)); // while the head comes
        receive_row(to, from, D, lane);
        __syncwarp();
        turn_head(to, gain, cs, D, dims, neighbour, eps, lane);
    }
    template <int D>
    __device__ __forceinline__ const float* query(const Attention& a, const Member& m, int head, int lane) const {
        float* to = room + thread() / 32 * 2 * D;
        turned<D>(to, q + ((size_t)m.row * a.kvHeads * a.group + head) * (a.gates ? 2 * D : D), qgain, m.pos, lane);
        return to;
    }
    // The last warps begin, for the first have most queries.
    template <int D>
    __device__ __forceinline__ void complete(const Attention& a, const Work& w, int page, int kh, bool appends, uint8_t* keys, uint8_t* values, int t) const {
        int lane = t % 32, behind = 0;
        float* head = room + t / 32 * 2 * D;
        for (int i = 0; i < w.at + w.rows; i++) { // rows of the sequence up to the work's last
            int2 r = a.order[i];
            if (r.y / PAGE != page || behind++ % 8 != 7 - t / 32) continue;
            const size_t at = ((size_t)r.x * a.kvHeads + kh) * D;
            receive_row(head + D, v + at, D, lane);
            turned<D>(head, k + at, kgain, r.y, lane);
            const bool stays = appends && i >= w.at;
            uint8_t* to = stays ? a.kv + page_at<F16>(a.tables[(size_t)w.slot * a.stride + page], a.layers, a.layer, a.kvHeads, kh, D) : nullptr;
#pragma unroll 1
            for (int place = 0; place < 1 + stays; place++)
                append_tiles<PutF16>(place ? to : keys, place ? to + F16::tile(D) : values, head, head + D, r.y % PAGE, D, lane);
            __syncwarp();
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // the stage is a copy's again when it has been used
    }

    // merge folds a tile's entries in ascending order as merge of attend_few.cuh does, when they have come, and makes them absent again: nobody else
    // reads them. At most 128, for their factors are in `room`. It is short, for a block that merges does so once a layer and its code has to come, too.
    template <int D, int USERS, class Store>
    __device__ __forceinline__ void merge(const Attention& a, const Work& k, int block, const float* sinks, FewScratch<D>& s, int pairs, int t, Store store) const {
        int w = t / 32, lane = t % 32;
        float4* factors = (float4*)room; // [entry][pair]: u, v, sum
        const float none = __uint_as_float(ABSENT);
        float* entries = entry_at<M, D>(a.partials, k.base, block, a.blocks);
        const size_t step = entry_at<M, D>(a.partials, k.base + 1, block, a.blocks) - entries;
#pragma unroll 1
        for (int h = w; h < pairs; h += USERS) {
            float top = NONE;
#pragma unroll 1
            for (int e = lane; e - lane < k.total; e += 32) {
                float m = NONE, sum = 0;
                if (e < k.total) {
                    float* at = entries + e * step + h;
                    do m = get_one(at), sum = get_one(at + M);
                    while (absent(m) || absent(sum));
                    put(at, none), put(at + M, none);
                }
                float now = m;
#pragma unroll
                for (int step = 1; step < 32; step *= 2) {
                    float x = __shfl_up_sync(~0u, now, step);
                    if (lane >= step) now = fmaxf(now, x);
                }
                now = fmaxf(now, top);
                float before = __shfl_up_sync(~0u, now, 1);
                Merge to(lane == 0 ? top : before, m);
                if (e < k.total) factors[e * pairs + h] = make_float4(to.u, to.v, sum, 0);
                top = __shfl_sync(~0u, now, 31);
            }
            if (lane == 0) s.peak[0][h] = top;
        }
        meet<32 * USERS>();
#pragma unroll 1
        for (int x = 4 * t; x < pairs * D; x += 128 * USERS) {
            constexpr int AHEAD = 5;
            const int h = x / D;
            float* at = entries + 2 * M + x;
            float4 o = {};
            float total = 0;
#pragma unroll 1
            for (int e = 0; e < k.total; e += AHEAD, at += AHEAD * step) {
                float4 add[AHEAD];
                bool missing;
                do {
                    missing = false;
#pragma unroll
                    for (int j = 0; j < AHEAD; j++)
                        if (e + j < k.total) add[j] = get(at + j * step), missing |= absent(add[j]);
                } while (missing);
#pragma unroll
                for (int j = 0; j < AHEAD; j++)
                    if (e + j < k.total) {
                        put(at + j * step, none, none, none, none);
                        float4 by = factors[(e + j) * pairs + h];
                        o.x = __fmaf_rn(add[j].x, by.y, __fmul_rn(o.x, by.x)), o.y = __fmaf_rn(add[j].y, by.y, __fmul_rn(o.y, by.x));
                        o.z = __fmaf_rn(add[j].z, by.y, __fmul_rn(o.z, by.x)), o.w = __fmaf_rn(add[j].w, by.y, __fmul_rn(o.w, by.x));
                        total = __fmaf_rn(by.z, by.y, __fmul_rn(total, by.x));
                    }
            }
            float inv = closing(total, s.peak[0][h], sinks ? sinks + h / k.rows : nullptr);
            store(h, x % D, __fmul_rn(o.x, inv), __fmul_rn(o.y, inv));
            store(h, x % D + 2, __fmul_rn(o.z, inv), __fmul_rn(o.w, inv));
        }
    }
};
