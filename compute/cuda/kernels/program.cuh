// A program: operations of a step with few rows, run one after another by blocks that stay.
//
// Between kernels the memory rests: the last blocks end, others begin, the first bytes come. Here two warps of a block walk
// through the operations ahead of the others and bring what no operation makes, weights and old pages of the KV cache, into a ring of
// stages; so weights of the next matmul arrive while norms, rotations and attention are computed.
//
//       warps 0-7     operation 0 │ operation 1 │ ..     phases: an operation that reads what others made begins when all blocks
//       warp 8        x, new pages: waits for the phase  have ended the phases before
//       warp 9        weights, old pages: never waits
//
// An operation is what its kernel computes, by the same code, so the same bits.
#pragma once
#include "append.cuh"
#include "attend_few.cuh"
#include "convert.cuh"
#include "gate.cuh"
#include "matmul_hopper.cuh"
#include "norm.cuh"
#include "rope.cuh"

// The operations, by the names of their kernels; rope_append_FORMAT is qk_norm_rope and append_kv_FORMAT of the keys that it turned.
#define EACH_OPERATION(X)                                                                                                                \
    X(add_norm) X(qk_norm_rope) X(append_kv_f16) X(append_kv_q8_0) X(append_kv_e4m3) X(rope_append_f16) X(rope_append_q8_0)               \
    X(rope_append_e4m3) X(swiglu) X(geglu) X(to_operand) X(to_rows) X(gather)                                                             \
    X(matmul_q8) X(matmul_q4) X(matmul_q4m) X(matmul_q5) X(matmul_q5m) X(matmul_q6) X(matmul_f16)                                         \
    X(attend_64_f16) X(attend_64_q8_0) X(attend_64_e4m3) X(attend_128_f16) X(attend_128_q8_0) X(attend_128_e4m3)                          \
    X(attend_256_f16) X(attend_256_q8_0) X(attend_256_e4m3)
#define NAME(x) OP_##x,
enum Operation { EACH_OPERATION(NAME) };
#undef NAME

// An instruction is an operation and the arguments of its kernel, and of what its grid says:
//
//   add_norm, qk_norm_rope     rows in x          append_kv    rows in x, KV heads in y
//   gates, conversions         rows in x          matmul       blocks in x; for the number of stages tiles of K a stage
//   attend                     blocks a work in x, works in y
struct __align__(16) Instruction {
    int operation, phase, x, y;
    uint64_t args[20];

    template <class P> __device__ __forceinline__ P* p(int i) const { return (P*)args[i]; }
    __device__ __forceinline__ int i(int n) const { return (int)args[n]; }
    __device__ __forceinline__ float f(int n) const { return __uint_as_float((uint32_t)args[n]); }

    __device__ __forceinline__ Matmul matmul() const {
        return {{{p<float>(0), p<uint8_t>(1), p<float>(2), i(3)}, {p<float>(4), p<uint8_t>(5), p<float>(6), i(7)}, {p<float>(8), p<uint8_t>(9), p<float>(10), i(11)}}, 1};
    }
    __device__ __forceinline__ Attention attention() const {
        return {p<half>(0), p<float>(1), p<uint8_t>(2), p<int2>(3), p<int>(4), p<Work>(5), p<float>(6), p<int>(7), i(8), i(9), i(10), i(11), i(12), i(13), f(14), i(15), x};
    }
};

// Gate is where blocks meet: a counter of the phases that blocks have ended, zero between launches.
struct Gate {
    unsigned* counter;
    unsigned phases;

    // wait returns when all blocks have ended the phases before; one thread.
    __device__ void wait(int phase) const {
        unsigned ended;
        do asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(ended) : "l"(counter) : "memory");
        while (ended < phase * gridDim.x);
    }
    // end tells of a phase; one thread, after a barrier of all that wrote. The last of all makes the counter zero: nobody waits for
    // the end of the last phase.
    __device__ void end() const {
        __threadfence();
        atomicInc(counter, phases * gridDim.x - 1);
    }
};

union Scratch {
    float part[8];
    float heads[8][256];
    FewScratch<64> few64;
    FewScratch<128> few128;
    FewScratch<256> few256;
    __device__ FewScratch<64>& few(FewScratch<64>*) { return few64; }
    __device__ FewScratch<128>& few(FewScratch<128>*) { return few128; }
    __device__ FewScratch<256>& few(FewScratch<256>*) { return few256; }
};

// each_eight calls f(row, k) for every eight values of rows of `width`: warps of all blocks in turn, so that few rows use many blocks.
template <class F>
__device__ __forceinline__ void each_eight(int rows, int width, int t, F f) {
    int eights = padded(width) / 8;
    for (int i = (t / 32 * gridDim.x + blockIdx.x) * 32 + t % 32; i < rows * eights; i += 256 * gridDim.x) f(i / eights, i % eights * 8);
}

// each_unit calls f(unit) for every unit that this warp does.
template <class F>
__device__ __forceinline__ void each_unit(int units, int t, F f) {
    for (int i = t / 32 * gridDim.x + blockIdx.x; i < units; i += 8 * gridDim.x) f(i);
}

template <class P>
__device__ __forceinline__ void rope_append(const Instruction& in, int t, float* v) {
    int heads = in.i(6), kvHeads = in.i(7), dim = in.i(8);
    each_unit(in.x * (heads + kvHeads), t, [&](int unit) {
        int row = unit / (heads + kvHeads), h = unit % (heads + kvHeads);
        rope_head(in.p<float>(0), in.p<float>(1), in.p<int>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), heads, kvHeads, dim, in.i(9), in.i(10), in.f(11), row, h,
                  t % 32, v);
        __syncwarp();
        if (h >= heads)
            append_head<P>(in.p<uint8_t>(12), in.p<float>(1), in.p<float>(13), in.p<int>(2), in.p<int>(14), in.p<int>(15), in.i(16), in.i(17), in.i(18), dim, row, h - heads,
                           kvHeads, t % 32);
    });
}

template <class P>
__device__ __forceinline__ void append_all(const Instruction& in, int t) {
    each_unit(in.x * in.y, t, [&](int unit) {
        append_head<P>(in.p<uint8_t>(0), in.p<float>(1), in.p<float>(2), in.p<int>(3), in.p<int>(4), in.p<int>(5), in.i(6), in.i(7), in.i(8), in.i(9), unit / in.y, unit % in.y,
                       in.y, t % 32);
    });
}

// each_work calls f(work, block) for every block of attention that this block does.
template <class F>
__device__ __forceinline__ void each_work(const Instruction& in, F f) {
    for (int v = blockIdx.x; v < in.x * in.y; v += gridDim.x) {
        Work k = load_work(in.p<Work>(5) + v / in.x);
        if (k.rows > 0) f(k, v % in.x);
    }
}

// What takes long to compile is functions of their own: a matmul and an attention, as the using warps see them and as a bringing warp.
// They take a ring's place and give it back.
template <class L, int T>
__device__ __noinline__ Ring multiply_share(const Instruction& in, const Matmul& mm, Ring ring, int t) {
    Share<L, T>(mm, blockIdx.x, in.x, in.i(14), false, in.i(17)).multiply(ring, in.p<float>(13), in.i(15), in.f(18), t / 128, t % 128, [] {});
    return ring;
}

template <class L, int T>
__device__ __noinline__ Ring bring_share(const Instruction& in, Ring ring, const Gate& gate, bool fresh) {
    if (threadIdx.x % 32 == 0 && blockIdx.x < in.x) {
        const Matmul mm = in.matmul();
        const Share<L, T> share(mm, blockIdx.x, in.x, in.i(14), false, in.i(17));
        if (fresh) share.bring_rows(ring, in.p<uint8_t>(12), [&] { gate.wait(in.phase), copies_see_writes(); });
        else share.bring_weights(ring);
    }
    ring.stage = __shfl_sync(~0u, ring.stage, 0), ring.parity = __shfl_sync(~0u, ring.parity, 0);
    return ring;
}

template <int D, class F>
__device__ __noinline__ Ring attend_works(const Instruction& in, const Attention& a, Ring ring, FewScratch<D>& s, int t) {
    each_work(in, [&](const Work& k, int block) {
        meet<256>();
        attend_pages<D, F>(ring, a, k, block, s, t);
    });
    return ring;
}

template <int D, class F>
__device__ __noinline__ Ring bring_works(const Instruction& in, Ring ring, const Gate& gate, bool fresh) {
    each_work(in, [&](const Work& k, int block) {
        bring_pages<D, F>(ring, in.attention(), k, block, fresh, [&] {
            if (fresh) gate.wait(in.phase), copies_see_writes();
        });
    });
    return ring;
}

// Whole is what an instruction's operands are, put together once.
union Whole {
    Matmul matmul;
    Attention attention;
};

// perform is an instruction's part of this block, by the 256 using threads.
template <int T>
__device__ __forceinline__ void perform(const Instruction& in, Ring& ring, Scratch& s, Whole& whole, int t) {
    switch (in.operation) {
    case OP_add_norm:
        for (int row = blockIdx.x; row < in.x; row += gridDim.x) {
            meet<256>();
            norm_row(in.p<float>(0), in.p<float>(1), in.p<half>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.f(8), in.f(9), row, t, s.part);
        }
        break;
    case OP_qk_norm_rope:
        each_unit(in.x * (in.i(6) + in.i(7)), t, [&](int unit) {
            rope_head(in.p<float>(0), in.p<float>(1), in.p<int>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.i(8), in.i(9), in.i(10), in.f(11),
                      unit / (in.i(6) + in.i(7)), unit % (in.i(6) + in.i(7)), t % 32, s.heads[t / 32]);
        });
        break;
    case OP_append_kv_f16: append_all<PutF16>(in, t); break;
    case OP_append_kv_q8_0: append_all<PutQ8_0>(in, t); break;
    case OP_append_kv_e4m3: append_all<PutE4M3>(in, t); break;
    case OP_rope_append_f16: rope_append<PutF16>(in, t, s.heads[t / 32]); break;
    case OP_rope_append_q8_0: rope_append<PutQ8_0>(in, t, s.heads[t / 32]); break;
    case OP_rope_append_e4m3: rope_append<PutE4M3>(in, t, s.heads[t / 32]); break;
    case OP_swiglu:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gate_8<Silu>(in.p<half>(0), in.p<float>(1), in.p<float>(2), in.i(3), in.i(4), in.f(5), row, k); });
        break;
    case OP_geglu:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gate_8<Gelu>(in.p<half>(0), in.p<float>(1), in.p<float>(2), in.i(3), in.i(4), in.f(5), row, k); });
        break;
    case OP_to_operand:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { to_operand_8(in.p<half>(0), in.p<float>(1), in.i(2), in.i(3), in.f(4), row, k); });
        break;
    case OP_to_rows:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { to_rows_8(in.p<float>(0), in.p<half>(1), in.i(2), in.i(3), in.f(4), row, k); });
        break;
    case OP_gather:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gather_8(in.p<half>(0), in.p<half>(1), in.p<int>(2), in.i(3), in.i(4), in.i(5), row, k); });
        break;
#define MATMUL(name, L)                                                                                        \
    case OP_matmul_##name:                                                             \
        if (blockIdx.x >= in.x) break;                                                 \
        if (t == 0) whole.matmul = in.matmul();                                        \
        meet<256>();                                                                   \
        ring = multiply_share<L, T>(in, whole.matmul, ring, t);                        \
        break;
        EACH_LAYOUT(MATMUL)
#undef MATMUL
#define ATTEND(D, name, F)                                                                                                                    \
    case OP_attend_##D##_##name:                                                                  \
        if (t == 0) whole.attention = in.attention();                                             \
        meet<256>();                                                                              \
        ring = attend_works<D, F>(in, whole.attention, ring, s.few((FewScratch<D>*)0), t);        \
        break;
        EACH_FORMAT(ATTEND, 64) EACH_FORMAT(ATTEND, 128) EACH_FORMAT(ATTEND, 256)
#undef ATTEND
    }
}

// bring_all is a bringing warp's walk through an instruction: `fresh` brings what the step makes, the other warp what it does not.
template <int T>
__device__ __forceinline__ void bring_all(const Instruction& in, Ring& ring, const Gate& gate, bool fresh) {
    switch (in.operation) {
#define MATMUL(name, L)                                                                                  \
    case OP_matmul_##name: ring = bring_share<L, T>(in, ring, gate, fresh); break;
        EACH_LAYOUT(MATMUL)
#undef MATMUL
#define ATTEND(D, name, F)                                                                                                  \
    case OP_attend_##D##_##name: ring = bring_works<D, F>(in, ring, gate, fresh); break;
        EACH_FORMAT(ATTEND, 64) EACH_FORMAT(ATTEND, 128) EACH_FORMAT(ATTEND, 256)
#undef ATTEND
    }
}

template <int T>
__device__ void program(const Instruction* list, int count, unsigned* counter, int stage, int stages) {
    extern __shared__ __align__(1024) uint8_t smem[];
    __shared__ Barriers barriers;
    __shared__ Scratch scratch;
    __shared__ Instruction now[2];
    __shared__ Whole whole;
    if (threadIdx.x == 0) barriers.init(stages, 8);
    __syncthreads();
    const Gate gate{counter, (unsigned)list[count - 1].phase + 1};
    int t = threadIdx.x;
    Ring ring{smem, &barriers, stage, stages, 0, t >= 256};
    if (t >= 256) {
        for (int i = 0; i < count; i++) bring_all<T>(list[i], ring, gate, t < 288);
        return;
    }
    auto fetch = [&](int i) { // into now[i % 2]
        if (t < sizeof(Instruction) / 16 && i < count)
            asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(shared_address((uint4*)(now + i % 2) + t)), "l"((const uint4*)(list + i) + t) : "memory");
    };
    auto fetched = [] { asm volatile("cp.async.wait_all;" ::: "memory"); };
    fetch(0), fetched();
    meet<256>();
    for (int i = 0; i < count; i++) {
        const Instruction& in = now[i % 2];
        int phase = in.phase; // the next turn's fetch may come before a slow thread's next reading of `in`
        fetch(i + 1);
        perform<T>(in, ring, scratch, whole, t);
        fetched();
        meet<256>();
        int next = i + 1 < count ? now[(i + 1) % 2].phase : phase + 1;
        if (next == phase) continue;
        if (t == 0) {
            gate.end();
            if (i + 1 < count) gate.wait(next);
        }
        meet<256>();
    }
}

#define PROGRAM(T, BLOCKS)                                                                                        \
    extern "C" __global__ void __launch_bounds__(320, BLOCKS)                                                     \
        program_##T(const Instruction* list, int count, unsigned* counter, int stage, int stages) {               \
        program<T>(list, count, counter, stage, stages);                                                          \
    }
