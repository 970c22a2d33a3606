// A program: operations of a step with few rows, run one after another by blocks that stay.
//
// Between kernels the memory rests: the last blocks end, others begin, the first bytes come. Here some warps of each block walk
// through the operations ahead of the others and bring what no operation makes, weights and old pages of the KV cache, into rings of
// stages; so weights of the next matmul arrive while norms, rotations and attention are computed.
//
//       using warps      operation 0 │ operation 1 │ ..      phases: an operation that reads what others made begins when all blocks
//       bringing warps   weights, pages; for new pages the   have ended the phases before
//                        first of them waits for the phase
//
// An operation is what its kernel computes, by the same code or in the same order, so the same bits.
#pragma once
#define MOST_STAGES 192
#define SHORT __noinline__
#include "append.cuh"
#include "attend_turned.cuh"
#include "convert.cuh"
#include "delta_near.cuh"
#include "experts_few.cuh"
#include "gate.cuh"
#include "gated_norm.cuh"
#include "mail.cuh"
#include "matmul_f32_few.cuh"
#include "norm.cuh"
#include "rope_append.cuh"
#include "scale.cuh"
#include "strips.cuh"
#include "sum.cuh"
#include "thread.cuh"

constexpr int USERS = 8; // using warps: as many as can hold their part of 16 rows of x in registers, and what attention and norms are laid out for
constexpr int USING = 32 * USERS;
constexpr int BRINGERS = 4; // warps that bring: a warpgroup, for only as such can they leave registers to the others.

// Registers of a thread that uses, and of one that brings: 256 of the one and 128 of the other have 64,512 of 65,536.
#define USERS_REGISTERS "224"
#define BRINGERS_REGISTERS "56"

// The operations, by the names of their kernels; delta_few is delta_convolve and delta_rule_128, route is sort_routes, too.
#define EACH_OPERATION(X)                                                                                                                \
    X(add_norm) X(qk_norm_rope) X(append_kv_f16) X(append_kv_q8_0) X(append_kv_e4m3) X(rope_append_f16) X(rope_append_q8_0)               \
    X(rope_append_e4m3) X(swiglu) X(geglu) X(to_operand) X(to_rows) X(gather) X(add) X(columns) X(scale) X(add_bias) X(gated_norm)       \
    X(ungated) X(open_gates) X(delta_few) X(matmul_f32) X(route) X(experts_add) X(clear)                                                 \
    X(matmul_q8) X(matmul_q4) X(matmul_q4m) X(matmul_q5) X(matmul_q5m) X(matmul_q6) X(matmul_f16)                                         \
    X(attend_f16)                                                                                                                         \
    X(experts_q8) X(experts_q4) X(experts_q4m) X(experts_q5) X(experts_q5m) X(experts_q6) X(experts_f16) X(experts_mx4)
#define NAME(x) OP_##x,
enum Operation { EACH_OPERATION(NAME) };
#undef NAME

// An instruction is an operation and the arguments of its kernel, and of what its grid says:
//
//   add_norm, qk_norm_rope,    rows in x          append_kv    rows in x, KV heads in y
//   rope_append
//   what goes by eight values  rows in x          attend       blocks a work in x, works in y
//   delta_few                  rows in x, sequences in y
//   route, experts_add         rows in x          route, experts   the crowd's number in the program in y
//   matmul_f32                 y, w and n of a second weight in 8 to 10
//   attend                     and if it turns, what qk_norm_rope and append_kv have: keys, values, gains, table from 18 on; in 23 eps, neighbour, gated, dims
//   matmul                     Activation in the lowest byte of y, then in 12 bits the first block that takes part and in 12 how many do; if it
//                              is gated, the operand and its scale are arguments 17 and 20; how it is cut in x (share, and from bit 16 on more),
//                              arguments 21 and 23: Strips
struct __align__(16) Instruction {
    short operation, mail; // mail: a bit for each operand that is; see mail.go
    int phase, x, y;
    uint64_t args[24];

    template <class P> __device__ __forceinline__ P* p(int i) const { return (P*)args[i]; }
    __device__ __forceinline__ int i(int n) const { return (int)args[n]; }
    __device__ __forceinline__ float f(int n) const { return __uint_as_float((uint32_t)args[n]); }

    __device__ Strips strips() const { return {args, i(18), (Activation)(y & 0xff), x & 0xffff, x >> 16, i(21), i(23)}; }
    __device__ __forceinline__ int block() const { return this_block() - (y >> 8 & 0xfff); } // of a matmul, of so many
    __device__ __forceinline__ bool takes_part() const { return (unsigned)block() < (uint32_t)y >> 20; }
    __device__ __forceinline__ NearStep delta() const { return {args, mail, x, y}; }
    __device__ __forceinline__ bool turns() const { return args[18] != 0; }
    __device__ __forceinline__ bool completes() const { return mail & 8; } // what this step writes to its pages only this instruction does
    __device__ __forceinline__ Turned turned(float* room) const {
        return {p<float>(1), p<float>(18), p<float>(19), p<float>(20), p<float>(21), p<float>(22), (int)(args[23] >> 34), (int)(args[23] >> 32 & 1), f(23), room};
    }
    __device__ __forceinline__ Attention attention() const {
        return {p<half>(0), p<float>(1), p<uint8_t>(2), p<int2>(3), p<int>(4), p<Work>(5), p<float>(6), p<int>(7), i(8), i(9), i(10), i(11), i(12), i(13), f(14), i(15), f(16), p<float>(17), x, args[23] >> 33 & 1 ? p<float>(1) : nullptr};
    }
};

__shared__ int opened_; // the phase that the block has come to

// Gate is where blocks meet: a counter of the phases that blocks have ended, zero between launches.
struct Gate {
    unsigned* counter;
    unsigned phases;

    // open returns when all blocks have ended the phases before, and tells the block; one thread. pass waits for that.
    __device__ void open(int phase) const {
        unsigned ended;
        do asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(ended) : "l"(counter) : "memory");
        while (ended < phase * gridDim.x);
        asm volatile("st.release.cta.shared.u32 [%0],%1;" ::"r"(shared_address(&opened_)), "r"(phase) : "memory");
    }
    __device__ void pass(int phase) const {
        int open;
        do asm volatile("ld.acquire.cta.shared.u32 %0,[%1];" : "=r"(open) : "r"(shared_address(&opened_)) : "memory");
        while (open < phase);
    }
    // end tells of a phase; one thread, after a barrier of all that wrote. The last of all makes the counter zero: nobody waits for
    // the end of the last phase.
    __device__ void end() const {
        Quiet quiet;
        __threadfence();
        atomicInc(counter, phases * gridDim.x - 1);
    }
};

// Scratch is shared memory of the using warps, for heads of D values.
template <int D>
union Scratch {
    float part[8];
    float heads[USERS][256];
    FewScratch<D> few;
    DeltaScratch delta;
};

// Rings are where pages and weights pass: bytes of a stage and stages, of weights of each using warp. A place is a ring's stage and parity.
// Behind them each using warp has so many runs of so many rows of an operand (Rows<8>), and last comes the crowd, where there are experts.
struct Rings {
    int page, pages, strip, strips, runs, rows;

    __device__ __forceinline__ Ring of_pages(int place) const { return {page, pages, place / 2, place % 2}; }
    __device__ __forceinline__ Ring of_weights(int place, int warp) const {
        return {strip, strips, place / 2, place % 2, pages + warp * strips, pages * page + warp * strips * strip};
    }
    __device__ __forceinline__ uint32_t rows_of(int warp) const {
        return shared_address(stages_) + pages * page + USERS * strips * strip + warp * runs * rows * Rows<8>::ROW;
    }
    __device__ __forceinline__ Crowd& crowd() const { return *(Crowd*)(stages_ + pages * page + USERS * (strip * strips + runs * rows * Rows<8>::ROW)); }
    static __device__ __forceinline__ int place(const Ring& r) { return 2 * r.stage + r.parity; }
};
__shared__ Rings rings;

// Whole is what attention works on, put together once, with the rows of its work.
struct Whole {
    Attention attention;
    Work work;
    int2 order[M];
};
__shared__ Whole whole, ahead; // of the using warps; of the warp that brings pages

constexpr int TURNS = 4;
__shared__ Instruction now[TURNS], next[BRINGERS]; // the using warps', the two after it and the one before; the bringing warps'

// each_eight calls f(row, k) for every eight values of rows of `width`: warps of all blocks in turn, so that few rows use many blocks.
template <class F>
__device__ __forceinline__ void each_eight(int rows, int width, int t, F f) {
    int eights = padded(width) / 8;
    for (int i = (t / 32 * gridDim.x + blockIdx.x) * 32 + t % 32; i < rows * eights; i += USING * gridDim.x) f(i / eights, i % eights * 8);
}

// each_unit calls f(unit) for every unit that this warp does.
template <class F>
__device__ __forceinline__ void each_unit(int units, int t, F f) {
    for (int i = t / 32 * gridDim.x + blockIdx.x; i < units; i += USERS * gridDim.x) f(i);
}

template <class P>
__device__ __forceinline__ void rope_append(const Instruction& in, int t, float* v) {
    const RopeAppend r{in.p<float>(0), in.p<float>(1), in.p<int>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.i(8), in.i(9), in.i(10),
                       in.f(11), in.p<uint8_t>(12), in.p<float>(13), in.p<int>(14), in.p<int>(15), in.i(16), in.i(17), in.i(18)};
    each_unit(in.x * (r.heads + r.kvHeads), t, [&](int unit) { r.head<P>(unit / (r.heads + r.kvHeads), unit % (r.heads + r.kvHeads), t % 32, v); });
}

template <class P>
__device__ __forceinline__ void append_all(const Instruction& in, int t) {
    each_unit(in.x * in.y, t, [&](int unit) {
        int row = unit / in.y, slot = in.p<int>(4)[row], pos = in.p<int>(3)[row];
        size_t at = (size_t)unit * in.i(9);
        if (slot >= 0)
            append_head<P>(in.p<uint8_t>(0), in.p<float>(1) + at, in.p<float>(2) + at, in.p<int>(5)[(size_t)slot * in.i(6) + pos / PAGE], pos, in.i(7), in.i(8), in.i(9),
                           unit % in.y, in.y, t % 32);
    });
}

// take_work is work number i of an instruction: no operation makes it. A warp.
__device__ __forceinline__ void take_work(const Instruction& in, Whole& whole, int i, int lane) {
    Work k = load_work(in.p<Work>(5) + i);
    k.at -= k.begin;
    if (lane < min(k.at + k.rows, M)) whole.order[lane] = in.p<int2>(3)[k.begin + lane];
    if (lane == 0) whole.work = k;
    __syncwarp();
}

// begin_work is what each_work begins with. A warp.
__device__ __forceinline__ void begin_work(const Instruction& in, Whole& whole, int lane) {
    if (this_block() >= in.x * in.y) return;
    if (lane == 0) whole.attention = in.attention(), whole.attention.order = whole.order;
    take_work(in, whole, this_block() / in.x, lane);
}

// each_work calls f(block) for every block of attention that this block does, of the work in `whole`, which begins as begin_work leaves it. All
// threads that share it call this; meet() is their barrier, and `first` whether the thread is of their first warp.
template <class Meet, class F>
__device__ __forceinline__ void each_work(const Instruction& in, Whole& whole, bool first, Meet meet, F f) {
    for (int v = this_block(); v < in.x * in.y; v += gridDim.x) {
        if (v != blockIdx.x) {
            meet();
            if (first) take_work(in, whole, v / in.x, thread() % 32);
            meet();
        }
        if (whole.work.rows > 0) f(v % in.x);
    }
}

// prepare is called before an instruction that prepares, while its phase is awaited, by a warp.
__device__ __forceinline__ bool prepares(int operation) { return operation == OP_attend_f16 || operation == OP_delta_few; }
__device__ __noinline__ void prepare(int turn) {
    const Instruction& in = now[turn];
    int lane = thread() % 32;
    if (in.operation == OP_attend_f16) begin_work(in, whole, lane);
    if (in.operation == OP_delta_few) near_.bring(in.delta(), lane);
}

// perform_small is an instruction that is neither a matmul nor attention; `head` is the warp's. A function of its own, so that it takes no registers from those.
__device__ __noinline__ void perform_small(int turn, int t, float* head) {
    const Instruction& in = now[turn];
    switch (in.operation) {
    case OP_qk_norm_rope:
        each_unit(in.x * (in.i(6) + in.i(7)), t, [&](int unit) {
            rope_head(in.p<float>(0), in.p<float>(1), in.p<int>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.i(8), in.i(9), in.i(10), in.f(11),
                      unit / (in.i(6) + in.i(7)), unit % (in.i(6) + in.i(7)), t % 32, head);
        });
        break;
    case OP_append_kv_f16: append_all<PutF16>(in, t); break;
    case OP_append_kv_q8_0: append_all<PutQ8_0>(in, t); break;
    case OP_append_kv_e4m3: append_all<PutE4M3>(in, t); break;
    case OP_rope_append_f16: rope_append<PutF16>(in, t, head); break;
    case OP_rope_append_q8_0: rope_append<PutQ8_0>(in, t, head); break;
    case OP_rope_append_e4m3: rope_append<PutE4M3>(in, t, head); break;
    case OP_swiglu:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gate_8<Silu>(in.p<half>(0), in.p<float>(1), in.p<float>(2), in.i(3), in.i(4), in.f(5), row, k, in.mail != 0); });
        break;
    case OP_geglu:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gate_8<Gelu>(in.p<half>(0), in.p<float>(1), in.p<float>(2), in.i(3), in.i(4), in.f(5), row, k, in.mail != 0); });
        break;
    case OP_to_operand:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { to_operand_8(in.p<half>(0), in.p<float>(1), in.i(2), in.i(3), in.f(4), row, k); });
        break;
    case OP_to_rows:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { to_rows_8(in.p<float>(0), in.p<half>(1), in.i(2), in.i(3), in.f(4), row, k); });
        break;
    case OP_add:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { add_8(in.p<float>(0), in.p<float>(1), in.p<float>(2), in.i(3), in.f(4), row, k); });
        break;
    case OP_columns:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { columns_8(in.p<float>(0), in.p<float>(1), in.i(2), in.i(3), in.i(4), row, k); });
        break;
    case OP_scale:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { scale_8(in.p<float>(0), in.p<float>(1), in.i(2), in.f(3), in.f(4), in.f(5), row, k); });
        break;
    case OP_add_bias:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { add_bias_8(in.p<float>(0), in.p<float>(1), in.i(2), row, k); });
        break;
    case OP_gated_norm: {
        int width = in.i(4), eights = padded(width) / 8;
        each_unit((in.x * eights + 31) / 32, t, [&](int unit) { // whole warps: lanes add up a group together
            int i = unit * 32 + t % 32;
            gated_norm_8(in.p<half>(0), in.p<float>(1), in.p<float>(2), in.p<float>(3), width, in.i(5), in.i(6), in.f(7), in.f(8), i / eights,
                         i < in.x * eights ? i % eights * 8 : padded(width), in.mail != 0);
        });
        break;
    }
    case OP_ungated:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { ungated_8(in.p<float>(0), in.p<float>(1), in.i(2), in.i(3), row, k); });
        break;
    case OP_open_gates:
        each_eight(in.x, in.i(2), t, [&](int row, int k) { open_gates_8(in.p<half>(0), in.p<float>(1), in.i(2), in.i(3), in.i(4), row, k); });
        break;
    case OP_clear: // up to 24 places, each an address and, in its upper 16 bits, how many times 16 bytes
        for (int i = 0; i < 24 && in.args[i]; i++)
            for (int at = blockIdx.x * USING + t; at < (int)(in.args[i] >> 48); at += gridDim.x * USING)
                put((uint4*)(in.args[i] << 16 >> 16) + at, make_uint4(ABSENT, ABSENT, ABSENT, ABSENT));
        break;
    case OP_gather:
        each_eight(in.x, in.i(3), t, [&](int row, int k) { gather_8(in.p<half>(0), in.p<half>(1), in.p<int>(2), in.i(3), in.i(4), in.i(5), row, k); });
        break;
    }
}

// A matmul is part of the program itself, which has more registers than a function can have; attention and the rest are functions of their own,
// so that they take none from it. What brings the ring forward returns its place.
template <class L, int T>
__device__ __forceinline__ int perform_matmul(int turn, int place) {
    const Instruction& in = now[turn];
    if (!in.takes_part()) return place;
    int t = thread();
    Ring weights = rings.of_weights(place, t / 32);
    multiply_strips<L, T, USERS>(weights, in.strips(), Rows<T>(in.p<half>(16), in.mail & 1, in.i(19), in.i(18), rings.runs, rings.rows_of(t / 32)), in.i(19), in.f(22), {in.p<half>(17), in.f(20), in.mail & 2 ? in.i(19) : T}, in.block(), t);
    return Rings::place(weights);
}

// from is where queries come from: Given or Turned.
template <int D, class From>
__device__ __forceinline__ int perform_attention(int turn, int place, FewScratch<D>& scratch, const From& from) {
    int t = thread();
    Ring pages = rings.of_pages(place);
    each_work(now[turn], whole, t < 32, [] { meet<USING>(); }, [&](int block) { attend_pages<D, USERS, F16>(pages, whole.attention, whole.work, block, scratch, from, t); });
    return Rings::place(pages);
}
template <int D>
__device__ __noinline__ int perform_given(int turn, int place, FewScratch<D>& scratch) {
    return perform_attention<D>(turn, place, scratch, Given{whole.attention.q});
}
template <int D>
__device__ __noinline__ int perform_turned(int turn, int place, FewScratch<D>& scratch) {
    return perform_attention<D>(turn, place, scratch, now[turn].turned((float*)sums_));
}

// first_row is the first row that this block norms. The last blocks begin: of what comes before a norm they have least, and everybody waits for it.
__device__ __forceinline__ int first_row() { return gridDim.x - 1 - this_block(); }

__device__ __noinline__ void perform_norm(int turn, float* part) {
    const Instruction& in = now[turn];
    int t = thread();
    for (int row = first_row(); row < in.x; row += gridDim.x) {
        meet<256>();
        norm_row(in.p<float>(0), in.p<float>(1), in.p<half>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.f(8), in.f(9), row, t, part, in.mail != 0);
    }
}

__device__ __noinline__ void perform_delta(int turn, DeltaScratch& scratch) {
    delta_few(now[turn].delta(), scratch, this_block(), gridDim.x, thread());
}

__device__ __noinline__ void perform_f32(int turn) {
    const Instruction& in = now[turn];
    int t = thread(), first = in.i(3), outputs = first + in.i(10), rows = in.i(5);
    each_unit(outputs * ((rows + 3) / 4), t, [&](int unit) {
        int o = unit % outputs;
        const bool second = o >= first; // weight
        o -= second ? first : 0;
        float* y = in.p<float>(second ? 8 : 0);
        const float* w = in.p<float>(second ? 9 : 2);
        if (rows == 1) multiply_f32_row(y, in.p<half>(1), w, in.i(second ? 10 : 3), in.i(4), in.i(6), in.f(7), o, in.mail != 0, t % 32);
        else multiply_f32(y, in.p<half>(1), w, in.i(second ? 10 : 3), in.i(4), rows, in.i(6), in.f(7), o, unit / outputs * 4, in.mail != 0, t % 32);
    });
}

__device__ __noinline__ void perform_route(int turn) {
    const Instruction& in = now[turn];
    const Router router{in.p<float>(2), in.p<float>(3), in.p<float>(4), in.p<float>(5), in.i(6), in.i(7), in.i(9) != 0, in.i(10) != 0, in.f(11), in.i(12), in.i(13), in.mail != 0};
    make_crowd<USERS>(rings.crowd(), router, in.x, in.y, (float*)sums_, sizeof(sums_), thread());
}

template <class L>
__device__ __noinline__ int perform_experts(int turn, int place) {
    int t = thread();
    Ring weights = rings.of_weights(place, t / 32);
    multiply_experts<L, USERS>(weights, ExpertStrips(now[turn].args, rings.crowd(), now[turn].mail != 0), rings.rows_of(t / 32), rings.runs * rings.rows * Rows<8>::ROW, this_block(), gridDim.x, t);
    return Rings::place(weights);
}

__device__ __noinline__ void perform_experts_add(int turn) {
    add_experts<USING>(now[turn].args, now[turn].mail, rings.crowd(), now[turn].x, this_block(), gridDim.x, thread());
}

// perform is an instruction's part of this block, by the using threads.
template <int T, int D>
__device__ __forceinline__ void perform(int turn, int& pages, int& weights, Scratch<D>& scratch) {
    switch (now[turn].operation) {
#define MATMUL(name, L) \
    case OP_matmul_##name: weights = perform_matmul<L, T>(turn, weights); break;
        EACH_LAYOUT(MATMUL)
#undef MATMUL
    case OP_attend_f16: pages = now[turn].turns() ? perform_turned<D>(turn, pages, scratch.few) : perform_given<D>(turn, pages, scratch.few); break;
    case OP_add_norm:
        if (first_row() < now[turn].x) perform_norm(turn, scratch.part);
        break;
    case OP_delta_few: perform_delta(turn, scratch.delta); break;
    case OP_matmul_f32: perform_f32(turn); break;
    case OP_route: perform_route(turn); break;
    case OP_experts_add: perform_experts_add(turn); break;
#define EXPERTS(name, L) \
    case OP_experts_##name: weights = perform_experts<L>(turn, weights); break;
        EACH_EXPERTS_LAYOUT(EXPERTS)
#undef EXPERTS
    default: perform_small(turn, thread(), scratch.heads[thread() / 32]);
    }
}

// expert_strip is the bytes of a strip of experts' weights; 0: the operation has none.
__device__ __forceinline__ int expert_strip(int operation) {
    switch (operation) {
#define EXPERTS(name, L) \
    case OP_experts_##name: return L::strip;
        EACH_EXPERTS_LAYOUT(EXPERTS)
#undef EXPERTS
    }
    return 0;
}

// bring_all is a bringing warp's walk through an instruction. The first brings pages, too; each brings the weights of some using warps.
template <int T, int D>
__device__ __forceinline__ void bring_all(const Instruction& in, Ring& pages, Ring& weights, const Gate& gate, bool first, int user) {
    if (int bytes = expert_strip(in.operation)) {
        barrier_wait(full_ + CROWD_STAGE, in.y % 2);
        const ExpertStrips m(in.args, rings.crowd());
        bring_experts(weights, m, bytes, this_block(), gridDim.x, user, USERS);
        if (!m.gates() && thread() % 32 == 0) barrier_arrive(empty_ + CROWD_STAGE);
    }
    switch (in.operation) {
#define MATMUL(name, L)                                                                                         \
    case OP_matmul_##name: bring_strips<L, T, USERS>(weights, in.strips(), in.block(), in.takes_part() ? user : USERS); break;
        EACH_LAYOUT(MATMUL)
#undef MATMUL
    case OP_add_norm: // the gain, lest it wait behind weights
        if (first && first_row() == 0 && thread() % 32 == 0) bulk_prefetch(in.p<float>(5), in.i(6) * 4);
        break;
    case OP_matmul_f32: // its rows: they pass no ring
        if (first)
            for (int o = this_block() + thread() % 32 * gridDim.x; o < in.i(3) + in.i(10); o += 32 * gridDim.x)
                bulk_prefetch(o < in.i(3) ? in.p<float>(2) + (size_t)o * in.i(4) : in.p<float>(9) + (size_t)(o - in.i(3)) * in.i(4), in.i(4) * 4);
        break;
    case OP_delta_few:
        if (first) prefetch_delta(in.delta(), this_block(), gridDim.x, thread() % 32);
        break;
    case OP_attend_f16: {
        if (!first) break;
        begin_work(in, ahead, thread() % 32);
        bool waited = false;
        each_work(in, ahead, true, [] { __syncwarp(); },
                  [&](int block) {
                      const Work& k = ahead.work;
                      const Attention& a = ahead.attention;
                      // Pages that the ring has no room for yet come to the L2 cache meanwhile, but not where a phase would wait for them.
                      gate.pass(in.phase - 1);
                      for (int p = k.first + thread() % 32; p < min(k.fresh, k.end); p += 32)
                          bulk_prefetch(a.kv + page_at<F16>(a.tables[(size_t)k.slot * a.stride + p], a.layers, a.layer, a.kvHeads, block % a.kvHeads, D), 2 * F16::tile(D));
                      bring_pages<D, F16>(pages, a, k, block, [&](int p) {
                          if (p >= k.fresh && !waited && !in.completes()) gate.pass(in.phase), copies_see_writes(), waited = true;
                          return true;
                      });
                  });
    }
    }
}

template <int T, int D>
__device__ __forceinline__ void program(const Instruction* list, int count, unsigned* counter, const Rings& r) {
    __shared__ Scratch<D> scratch;
    int t = threadIdx.x;
    if (t == 0) ring_init(0, r.pages, 1, USERS), ring_init(r.pages, USERS * r.strips, 1, 1), opened_ = 0, quiet_ = 0, rings = r, near_.made = 0, crowd_init(BRINGERS);
    __syncthreads();
    const Gate gate{counter, (unsigned)list[count - 1].phase + 1};
    if (t >= USING) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 " BRINGERS_REGISTERS ";");
        constexpr int EACH = USERS / BRINGERS;
        const int w = (t - USING) / 32, lane = t % 32, user = lane < EACH ? w * EACH + lane : USERS;
        Ring pages = r.of_pages(1), weights = r.of_weights(1, user);
        for (int i = 0; i < count; i++) {
            __syncwarp();
            if (lane < (int)sizeof(Instruction) / 16) ((uint4*)(next + w))[lane] = ((const uint4*)(list + i))[lane];
            __syncwarp();
            bring_all<T, D>(next[w], pages, weights, gate, w == 0, user);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 " USERS_REGISTERS ";");
    auto fetch = [&](int i) { // into now[i % TURNS], with copies that are a group
        if (t < (int)sizeof(Instruction) / 16 && i < count)
            asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(shared_address((uint4*)(now + i % TURNS) + t)), "l"((const uint4*)(list + i) + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    auto fetched = [] { asm volatile("cp.async.wait_group 1;" ::: "memory"); }; // but the last group
    fetch(0), fetch(1), fetched();
    meet<USING, 2>();
    if (t / 32 == 1) prepare(0);
    meet<USING, 2>();
    int pages = 0, weights = 0;
    for (int i = 0;; i++) {
        fetch(i + 2);
        perform<T, D>(i % TURNS, pages, weights, scratch);
        fetched();
        meet<USING, 2>();
        const int after = (i + 1) % TURNS;
        const bool last = i + 1 == count, ends = last || now[after].phase != now[i % TURNS].phase;
        if (t == 0 && ends) gate.end();
        if (last) return;
        if (!ends && !prepares(now[after].operation)) continue;
        if (t == 0 && ends) gate.open(now[after].phase);
        if (t / 32 == 1) prepare(after);
        meet<USING, 2>();
    }
}

#define PROGRAM(T, D)                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(32 * (USERS + BRINGERS), 1)                                                               \
        program_##T##_##D(const Instruction* list, int count, unsigned* counter, int page, int pages, int strip, int strips,           \
                            int runs, int rows)     {                                                                                                  \
        program<T, D>(list, count, counter, {page, pages, strip, strips, runs, rows});                                                 \
    }
