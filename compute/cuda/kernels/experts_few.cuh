// Experts in a step of few rows, as a block of a program sees them: route, sort_routes and the kernels of experts, with their bits.
//
//   crowd     who takes which expert. Each block makes it itself, of the router's products: nobody waits for a block that does so for all
//   a piece   up to 8 rows of one expert, next to each other by place: pairs of a row and an expert, experts ascending
//   strips    of 16 outputs, numbered through piece after piece; a gate's and its value's strip come in turn. Blocks have equal shares
//
//             expert 3          expert 17           a unit is a segment of a strip, by one warp: strips.cuh. Two with the same rows are
//          gate value gate ..  gate value ..        multiplied at a time, and their sums meet in shared memory: a gate and its value become
//          └─ block 0 ──┘└─ block 1 ──┘             what downs read, as soon as their segments are added up
//
// What an expert needs cannot be brought before its rows are known: the bringing warps wait for the crowd, once for gates and
// downs, and say when they have read it for the last time.
//
// Order    experts.cuh's and experts.cu's. Of who comes first within an expert no bit depends.
#pragma once
#include "async.cuh"
#include "attend_few.cuh"
#include "experts_layouts.cuh"
#include "experts_parts.cuh"
#include "opened.cuh"
#include "router.cuh"
#include "strips.cuh"

constexpr int PAIRS = 256;    // of rows and their experts, at most
constexpr int PIECE_ROWS = 8; // of an expert, at a time

// Crowd is who takes which expert. A pair is row*chosen + j for the row's j-th; pieces are numbered as they lie.
struct Crowd {
    float weight[PAIRS];                      // of a pair
    int expert[PAIRS];                        // of a pair
    uint16_t piece[PAIRS], first[PAIRS + 1];  // the expert of a piece; its first place
    uint8_t place[PAIRS], row[PAIRS];         // of a pair; of a place
    uint32_t begins[PAIRS / 32];              // bits of places with which a piece begins
    int pieces, most;                         // how many; rows of one, at most

    __device__ __forceinline__ int rows(int piece) const { return first[piece + 1] - first[piece]; }

    // sort makes all else of the pairs' experts. N threads call it, which is all that wrote those.
    template <int N>
    __device__ __forceinline__ void sort(int pairs, int chosen, int t) {
        if (t < PAIRS / 32) begins[t] = 0;
        if (t == 0) most = 0;
        meet<N>();
#pragma unroll 1
        for (int p = t; p < pairs; p += N) {
            int e = expert[p], before = 0, among = 0;
#pragma unroll 8
            for (int q = 0; q < pairs; q++) {
                bool same = expert[q] == e && q < p;
                before += same || expert[q] < e, among += same;
            }
            place[p] = before, row[before] = p / chosen;
            if (among % PIECE_ROWS == 0) atomicOr(begins + before / 32, 1u << before % 32);
            atomicMax(&most, among % PIECE_ROWS + 1);
        }
        meet<N>();
#pragma unroll 1
        for (int p = t; p <= pairs; p += N) { // the last: one beyond all
            int at = p < pairs ? place[p] : pairs, number = 0;
            for (int i = 0; i < PAIRS / 32; i++) number += __popc(32 * i + 32 <= at ? begins[i] : 32 * i < at ? begins[i] & ((1u << at % 32) - 1) : 0);
            if (p == pairs) pieces = number, first[number] = pairs;
            else if (begins[at / 32] >> at % 32 & 1) piece[number] = expert[p], first[number] = at;
        }
        meet<N>();
    }
};
constexpr int CROWD_STAGE = MOST_STAGES - 1; // it passes like a stage of a ring, and has the barriers of the last

__device__ __forceinline__ void crowd_init(int bringers) { barrier_init(full_ + CROWD_STAGE, 1), barrier_init(empty_ + CROWD_STAGE, bringers); }

// make_crowd routes rows and sorts them, by WARPS warps that all call it. turn counts the crowds of a program, and room is shared memory.
template <int WARPS>
__device__ __forceinline__ void make_crowd(Crowd& crowd, const Router& r, int rows, int turn, float* room, int bytes, int t) {
    barrier_wait(empty_ + CROWD_STAGE, turn % 2 ^ 1);
    int warps = min(WARPS, bytes / (12 * r.n));
#pragma unroll 1
    for (int row = t / 32; row < rows && t / 32 < warps; row += warps) r.route(crowd.expert + row * r.chosen, crowd.weight + row * r.chosen, row, room + t / 32 * 3 * r.n, t % 32);
    crowd.sort<32 * WARPS>(rows * r.chosen, r.chosen, t);
    if (t == 0) barrier_arrive(full_ + CROWD_STAGE);
}

// ExpertStrips are the strips of all pieces: of gates and values, or of downs. args are the kernel's.
struct ExpertStrips {
    const uint64_t* args;
    const Crowd& crowd;
    bool mail; // the operand is
    int n, ktiles, per; // outputs; tiles of K; strips of a piece

    __device__ __forceinline__ ExpertStrips(const uint64_t* args, const Crowd& crowd, bool mail = false) : args(args), crowd(crowd), mail(mail), n(i(9)), ktiles(i(10)) {
        per = gates() ? padded(n) / 8 : (n + 15) / 16; // K of downs is padded: gates give zeros for it
    }
    template <class P> __device__ __forceinline__ P* p(int at) const { return (P*)args[at]; }
    __device__ __forceinline__ int i(int at) const { return (int)args[at]; }
    __device__ __forceinline__ float f(int at) const { return __uint_as_float((uint32_t)args[at]); }
    __device__ __forceinline__ Bank bank(int number) const { return {p<uint8_t>(3 * number), p<float>(3 * number + 1), p<float>(3 * number + 2)}; }
    __device__ __forceinline__ bool gates() const { return i(13) != 0; }
    __device__ __forceinline__ int grain() const { return gates() ? 2 : 1; } // strips that a block has together
    __device__ __forceinline__ int segments() const { return (ktiles + SEGMENT - 1) / SEGMENT; }
    __device__ __forceinline__ int tiles(int segment) const { return min(SEGMENT, ktiles - segment * SEGMENT); }

    // tile gives where a strip's 64 outputs begin; strip becomes its number in them. strip_bytes are of 16 outputs of a tile.
    __device__ __forceinline__ const uint8_t* tile(int& strip, int strip_bytes) const {
        int piece = strip / per, number = gates() ? strip % per % 2 : 0;
        strip = strip % per / grain();
        const uint8_t* at = bank(number).tile(crowd.piece[piece], n, ktiles, strip / 4, 4 * strip_bytes);
        strip %= 4;
        return at;
    }
    // row is row r of a piece, at k = 0.
    __device__ __forceinline__ const half* row(int piece, int r) const {
        int place = crowd.first[piece] + r;
        return p<half>(6) + operand_at(gates() ? crowd.row[place] : place, 0, i(11), ktiles * TILE_K);
    }
};

// Portions are what a block does, as Chunks of strips.cuh: `count` strips from `strip` on, and of each `deep` segments from `segment` on.
// Where not all segments of a strip fit, a portion is `grain` strips.
struct Portions {
    const ExpertStrips& m;
    int last, segments, room; // strips end; sums of units in a portion, at most
    int strip, count, segment, deep;

    __device__ __forceinline__ Portions(const ExpertStrips& m, const Wanted<8>& wanted, int block, int blocks)
        : m(m), segments(m.segments()), room(wanted.room()), count(0), segment(0), deep(0) {
        int all = m.crowd.pieces * m.per / m.grain();
        strip = block * all / blocks * m.grain(), last = (block + 1) * all / blocks * m.grain();
    }
    __device__ __forceinline__ bool next() {
        segment += deep;
        if (segment == segments) segment = 0, strip += count;
        if (strip >= last) return false;
        int grain = m.grain();
        deep = min(segments - segment, room / grain), count = min(last - strip, max(1, room / segments / grain) * grain);
        return true;
    }
    // begin is the first unit of a warp of so many; unit u is segment u / count of strip u % count. together is how many of those from u on
    // are multiplied at a time.
    __device__ __forceinline__ int begin(int warp, int warps) const { return warp * (count * deep / m.grain()) / warps * m.grain(); }
    __device__ __forceinline__ int together(int u, int end) const {
        int at = strip + u % count;
        return u + 1 < end && u % count + 1 < count && (at + 1) % m.per != 0 ? 2 : 1;
    }
};

// bring_experts fills the ring of a using warp, number `user` of so many; each lane of a whole warp one, those past the last none.
// strip_bytes are a layout's.
__device__ __forceinline__ void bring_experts(Ring& ring, const ExpertStrips& m, int strip_bytes, int block, int blocks, int user, int warps) {
    const int piece = strip_bytes < 2048 ? RUN : RUN / 2; // PIECE of the layout
    Portions portion(m, Wanted<8>(m.crowd.most), block, blocks);
    int u = 0, end = 0;                      // units of the portion
    int strips = 0, i = 0, at = 0, left = 0; // of those multiplied together: strips, the one that comes, and its tiles
    int first = 0;                           // of those strips
    bool more = user < warps;
    Ring behind = ring; // at the first stage that is on its way
    behind.parity ^= 1;
    int issued = 0;
    while (__any_sync(~0u, more)) {
        if (more && left == 0) {
            while (u == end && (more = portion.next())) u = portion.begin(user, warps), end = portion.begin(user + 1, warps);
            if (more) {
                int segment = portion.segment + u / portion.count;
                strips = portion.together(u, end), first = portion.strip + u % portion.count;
                at = segment * SEGMENT, left = m.tiles(segment), u += strips;
            }
        }
        if (more && !quiet_ && ring.is_empty() && (issued < FLIGHT || behind.is_full())) {
            int n = min(piece, left), run = at / RUN * RUN, strip = first + i;
            const uint8_t* from = m.tile(strip, strip_bytes);
            barrier_expect(ring.full(), n * strip_bytes);
            bulk_copy_once(ring.at(), from + ((size_t)run * 4 + strip * min(RUN, m.ktiles - run) + at - run) * strip_bytes, n * strip_bytes, ring.full());
            ring.next();
            if (issued < FLIGHT) issued++;
            else behind.next();
            if (++i == strips) i = 0, left -= n, at += n;
        }
    }
}

// PieceRows are the rows of a piece as the B operands of k16 steps. They come to shared memory of the warp, [K/8][rows][8], a span of tiles at
// a time: as many as fit twice, so that the next span comes while one is read. What has come of mail is looked at, and what was absent asked for again.
struct PieceRows {
    const ExpertStrips& m;
    uint32_t at;               // the warp's memory
    int bytes;                 // of it
    int piece = -1, rows, span; // a span's tiles are 1 << span
    int now = -1;              // the span that is read
    int here[2] = {-1, -1};    // the spans there: span s in place s % 2
    bool pending = false;      // some are on their way

    __device__ __forceinline__ PieceRows(const ExpertStrips& m, uint32_t at, int bytes) : m(m), at(at), bytes(bytes), rows(1), span(0) {}

    // turn turns to a piece; nothing is on its way.
    __device__ __forceinline__ void turn(int to) {
        if (to == piece) return;
        piece = to, rows = m.crowd.rows(to), span = 2 * 4 * rows * 128 <= bytes ? 2 : 2 * 2 * rows * 128 <= bytes ? 1 : 0;
        now = here[0] = here[1] = -1;
    }
    __device__ __forceinline__ uint32_t place(int s) const { return at + (s % 2 * rows * 128 << span); }
    __device__ __forceinline__ bool is_here(int s) const { return (s % 2 ? here[1] : here[0]) == s; }
    __device__ __forceinline__ void ask(int s, int last, int lane) {
        if (s << span >= last || is_here(s)) return;
        __syncwarp();
        if (has(s, last, lane)) // eight k of each row
#pragma unroll 1
            for (int r = 0; r < rows; r++) copy(s, r, lane);
        (s % 2 ? here[1] : here[0]) = s;
        pending = true;
    }
    __device__ __forceinline__ bool has(int s, int last, int lane) const { return lane < 8 << span && (s << span) + lane / 8 < last; }
    __device__ __forceinline__ uint32_t part(int s, int r, int lane) const { return place(s) + (lane * rows + r) * 16; }
    __device__ __forceinline__ void copy(int s, int r, int lane) const {
        asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(part(s, r, lane)), "l"(m.row(piece, r) + (size_t)((s * 8 << span) + lane) * m.i(11) * 8) : "memory");
    }
    // receive returns when a span that has been copied holds nothing absent.
    __device__ __forceinline__ void receive(int s, int last, int lane) const {
        if (has(s, last, lane))
#pragma unroll 1
            for (int r = 0; r < rows;) {
                uint4 v;
                asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(part(s, r, lane)) : "memory");
                if (!absent_half(most(v))) r++;
                else copy(s, r, lane), copied();
            }
        __syncwarp();
    }
    // need returns when tile k's span is here, and asks for the next one: at once where both are new. last is where the segment's tiles end.
    __device__ __forceinline__ void need(int k, int last, int lane) {
        int s = k >> span;
        if (s == now) return;
        now = s;
        bool fresh = !is_here(s);
        if (fresh) ask(s, last, lane), ask(s + 1, last, lane);
        if (pending) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncwarp();
            pending = false;
        }
        if (m.mail) receive(s, last, lane);
        if (!fresh) ask(s + 1, last, lane);
    }
    // load gives b of tile k, which is here.
    __device__ __forceinline__ void load(uint32_t (&b)[4][2], int k, int lane) const {
        uint32_t from = place(k >> span) + (k & (1 << span) - 1) * 128 * rows + (lane / 8 * rows + min(lane % 8, rows - 1)) * 16; // who has no row: any
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t r[4];
            load_tiles(r, from + i * 64 * rows);
            b[2 * i][0] = r[0], b[2 * i][1] = r[1], b[2 * i + 1][0] = r[2], b[2 * i + 1][1] = r[3];
        }
    }
};

// multiply_expert_units computes a warp's units [u, end) of a portion into `sums`.
template <class L>
__device__ __forceinline__ void multiply_expert_units(Ring& ring, PieceRows& x, const Portions& portion, const Wanted<8>& wanted, int u, int end, float4* sums, int lane) {
    const ExpertStrips& m = portion.m;
#pragma unroll 1
    for (int n; u < end; u += n) {
        n = portion.together(u, end);
        int segment = portion.segment + u / portion.count, k = segment * SEGMENT, stop = k + m.tiles(segment);
        x.turn((portion.strip + u % portion.count) / m.per);
        float c[2][4] = {};
#pragma unroll 1
        while (k < stop) {
            x.need(k, stop, lane);
            ring.wait_full();
            Ring second = ring;
            second.next();
            if (n > 1) second.wait_full();
            const uint8_t *one = ring.at(), *two = n > 1 ? second.at() : one;
#pragma unroll 1
            for (int last = min(stop, k + PIECE<L>); k < last; k++, one += L::strip, two += L::strip) {
                x.need(k, stop, lane);
                const L tile[] = {L(one, lane), L(two, lane)};
                uint32_t b[4][2];
                x.load(b, k, lane);
                multiply_two(c, tile, b);
            }
            ring.release(lane);
            if (n > 1) ring.release(lane);
        }
        if (wanted.has(lane))
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (i < n) sums[wanted.at(u + i, 0, lane)] = make_float4(c[i][0], c[i][1], c[i][2], c[i][3]);
    }
}

// gate_few is a function, for eight layouts have its code.
__device__ __noinline__ float gate_few(float g, float u, int gating, float limit) { return gated(g, u, gating, limit); }

// ExpertSum is what a thread adds up: rows r and r+1, outputs o and o+8 of a strip, or of a gate's and its value's. It is found before the
// portion is multiplied, so that the scales come meanwhile.
struct ExpertSum {
    int expert, place, o, rows;    // place of row r; rows that there are, at most 2
    float scale[2][2], bias[2][2]; // of gates and values, at o and o+8

    // find returns whether there is sum i of a portion.
    __device__ __forceinline__ bool find(const Portions& portion, const Wanted<8>& wanted, int i) {
        const ExpertStrips& m = portion.m;
        int lanes = wanted.lanes(), grain = m.grain(), lane = i % lanes;
        rows = 0;
        if (i >= portion.count / grain * lanes) return false;
        int strip = portion.strip + i / lanes * grain, piece = strip / m.per, r = 2 * (lane % wanted.quads());
        expert = m.crowd.piece[piece], place = m.crowd.first[piece] + r, rows = min(2, m.crowd.rows(piece) - r);
        o = strip % m.per / grain * 16 + lane / wanted.quads();
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (b < grain && rows > 0 && o + 8 * h < m.n) {
                    const Bank bank = m.bank(b);
                    size_t at = (size_t)expert * m.n + o + 8 * h;
                    scale[b][h] = bank.scales[at], bias[b][h] = bank.bias ? bank.bias[at] : 0;
                }
        return true;
    }
    // add adds sums of the portion to total, which goes on where a strip takes several portions, and stores what comes out.
    __device__ __forceinline__ void add(const Portions& portion, const Wanted<8>& wanted, const float4* sums, float4 (&total)[2], int i) const {
        if (rows <= 0) return;
        const ExpertStrips& m = portion.m;
        int lanes = wanted.lanes(), grain = m.grain();
        const float4* from = sums + i / lanes * grain * lanes + i % lanes;
#pragma unroll 1
        for (int s = 0; s < portion.deep; s++, from += portion.count * lanes)
#pragma unroll
            for (int b = 0; b < 2; b++)
                if (b < grain) {
                    float4 v = from[b * lanes], &to = total[b];
                    to = portion.segment + s == 0 ? v : make_float4(__fadd_rn(to.x, v.x), __fadd_rn(to.y, v.y), __fadd_rn(to.z, v.z), __fadd_rn(to.w, v.w));
                }
        if (portion.segment + portion.deep < portion.segments) return;
        const float by = m.f(12);
        const float c[2][2][2] = {{{total[0].x, total[0].y}, {total[0].z, total[0].w}}, {{total[1].x, total[1].y}, {total[1].z, total[1].w}}};
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                if (r >= rows) continue;
                float v[2];
                bool is = o + 8 * h < m.n;
#pragma unroll
                for (int b = 0; b < 2; b++) {
                    v[b] = __fmul_rn(c[b][h][r], __fmul_rn(scale[b][h], by));
                    if (m.p<float>(3 * b + 2)) v[b] = __fadd_rn(v[b], bias[b][h]);
                }
                if (!m.gates()) {
                    if (is) put(m.p<float>(18) + (size_t)(place + r) * m.n + o + 8 * h, v[0]);
                } else {
                    float g = is ? gate_few(v[0], v[1], m.i(15), m.f(16)) : 0;
                    put(m.p<half>(14) + operand_at(place + r, o + 8 * h, 8, padded(m.n)), __float2half_rn(__fmul_rn(g, m.f(17))));
                }
            }
    }
};

// multiply_experts computes this block's strips, by WARPS warps that all call it; bytes are of a warp's memory for rows.
template <class L, int WARPS>
__device__ __forceinline__ void multiply_experts(Ring& ring, const ExpertStrips& m, uint32_t rows, int bytes, int block, int blocks, int t) {
    const Wanted<8> wanted(m.crowd.most);
    PieceRows x(m, rows, bytes);
    float4 total[2] = {};
    int buffer = 0;
    for (Portions portion(m, wanted, block, blocks); portion.next(); buffer ^= 1) {
        ExpertSum sum = {};
        int i = t;
        bool has = sum.find(portion, wanted, i);
        multiply_expert_units<L>(ring, x, portion, wanted, portion.begin(t / 32, WARPS), portion.begin(t / 32 + 1, WARPS), sums_[buffer], t % 32);
        meet<32 * WARPS>();
#pragma unroll 1
        while (has) {
            sum.add(portion, wanted, sums_[buffer], total, i);
            i += 32 * WARPS, has = sum.find(portion, wanted, i);
        }
    }
}

// add_experts gives rows what their experts made, in experts.cu's order, by N threads: a warp of any block has 32 values. args are the kernel's; products,
// shared and gate may be mail, a bit of `mail` each.
template <int N>
__device__ __forceinline__ void add_experts(const uint64_t* args, int mail, const Crowd& crowd, int rows, int block, int blocks, int t) {
    constexpr int STEPS = 4; // experts that are asked for at once
    const int width = (int)args[6], chosen = (int)args[7], parts = (width + 31) / 32;
#pragma unroll 1
    for (int unit = t / 32 * blocks + block; unit < rows * parts; unit += N / 32 * blocks) {
        const int row = unit / parts, k = unit % parts * 32 + t % 32;
        if (k >= width) continue;
        const float *products = (const float*)args[1] + k, *shared = (const float*)args[4], *gate = (const float*)args[5];
        float sum = 0;
#pragma unroll 1
        for (int from = row * chosen; from < (row + 1) * chosen; from += STEPS) {
            float v[STEPS];
            bool missing;
            do {
                missing = false;
#pragma unroll
                for (int i = 0; i < STEPS; i++)
                    if (from + i < (row + 1) * chosen) v[i] = get_one(products + (size_t)crowd.place[from + i] * width), missing |= absent(v[i]);
            } while (mail & 1 && missing);
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                if (from + i < (row + 1) * chosen) sum = __fmaf_rn(v[i], crowd.weight[from + i], sum);
        }
        if (shared) sum = __fmaf_rn(receive_one(shared + (size_t)row * width + k, mail & 2), gate ? opened(1.f, receive_one(gate + row, mail & 4)) : 1.f, sum);
        put((float*)args[0] + (size_t)row * width + k, sum);
    }
}
