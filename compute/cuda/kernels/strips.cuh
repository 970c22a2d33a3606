// A matmul of few rows, as one block of many that stay sees it: y = x·Wᵀ for an operand of one tile of T rows (8 or 16), up to four
// weights of one layout at once. Two that are gated, act(x·Gᵀ) * (x·Uᵀ), are gated as they are added up.
//
//        K →   segment 0   segment 1         a block: strips of 16 outputs next to each other, all of K
//   strip 0  ┌───────────┬───────────┬─ ─    a unit: a segment of a strip, by one warp. Those of a segment come one after another, so that a
//   strip 1  ├───────────┼───────────┼─ ─          warp loads its part of x once: Rows
//                 C0     +     C1    + ..    sums meet in shared memory, a chunk of units at a time: y/(row's scale), in this order
//
// Of 8 rows a warp multiplies two units of a segment at a time, so that one chain of products waits while the other goes on. Each warp has a
// ring of its own, that a lane of a bringing warp fills with W in the order in which the warp will ask for it.
//
// Order    matmul.cu's: k16 steps ascending within a segment of 512 of K, segments added ascending.
#pragma once
#include "gate.cuh"
#include "layouts.cuh"
#include "mail.cuh"
#include "ring.cuh"
#include "thread.cuh"

constexpr int SEGMENT = 8;        // tiles of K
constexpr int CHUNK = 16 << 10;   // bytes of a chunk's sums; while one is added up the next is made. One that is all has twice as many
constexpr int FLIGHT = 2;         // stages on their way to a warp, at most: what others wait for waits behind them
__shared__ float4 sums_[2][CHUNK / 16];

// Activation is what becomes of two products: nothing, or the operand of swiglu or geglu.
enum class Activation { none, silu, gelu };

// Strips are the strips of up to four weights, numbered through: y [rows, n], w, scales and n of each lie in args. If they are gated, a strip of
// the first comes before the same one of the second, and such a pair stays with its block.
struct Strips {
    const uint64_t* args;
    int ktiles;
    Activation activation;
    int share, more; // strips of a block, or pairs; so many blocks, the first, have one more
    int each, depth; // strips of a chunk, and segments of each

    __device__ int outputs(int i) const { return (int)args[4 * i + 3]; }
    __device__ int strips(int i) const { return (outputs(i) + 15) / 16; }
    __device__ int segments() const { return (ktiles + SEGMENT - 1) / SEGMENT; }
    __device__ int tiles(int segment) const { return min(SEGMENT, ktiles - segment * SEGMENT); }
    __device__ int pair() const { return activation == Activation::none ? 1 : 2; } // strips that stay together
    // find gives the weight of a strip, which becomes the number in it.
    __device__ int find(int& strip) const {
        int i = 0;
        if (activation != Activation::none) {
            i = strip % 2, strip /= 2;
            return i;
        }
        while (strip >= strips(i)) strip -= strips(i++);
        return i;
    }
    __device__ float* y(int i) const { return (float*)args[4 * i]; }
    __device__ const uint8_t* w(int i) const { return (const uint8_t*)args[4 * i + 1]; }
    __device__ const float* scales(int i) const { return (const float*)args[4 * i + 2]; }
};

// Chunks are what a block does: `count` strips from `strip` on, and of each `deep` segments from `segment` on. How many is the host's, for a
// division takes longer than a tile.
struct Chunks {
    int last, segments, each, depth; // strips end; the most of count and deep
    int strip, count, segment, deep;

    __device__ __forceinline__ Chunks(const Strips& s, int block) : segments(s.segments()), each(s.each), depth(s.depth), count(0), segment(0), deep(0) {
        strip = s.pair() * (s.share * block + min(block, s.more)), last = strip + s.pair() * (s.share + (block < s.more));
    }
    __device__ __forceinline__ bool next() {
        segment += deep;
        if (segment == segments) segment = 0, strip += count;
        if (strip >= last) return false;
        deep = min(segments - segment, depth), count = min(last - strip, each);
        return true;
    }
};

// Units are a warp's of a chunk, in order: `together` strips from `first` on of its segment number `segment`, up to `most` at a time.
struct Units {
    int count, left, unit, first, segment, together;

    // of are those of warp number `warp` of so many; next turns to the first of them.
    __device__ __forceinline__ void of(const Chunks& c, int warp, int warps) {
        int begin = warp * c.count * c.deep / warps;
        count = c.count, left = (warp + 1) * c.count * c.deep / warps - begin, unit = begin, together = 0;
        segment = (int)__fdividef(begin + 0.5f, (float)count), first = begin - segment * count; // a division of integers takes twice as long
    }
    __device__ __forceinline__ bool next(int most) {
        unit += together, left -= together, first += together;
        if (first == count) first = 0, segment++;
        if (left <= 0) return false;
        together = min(most, min(count - first, left));
        return true;
    }
    // following is the segment of those after these; the last has none.
    __device__ __forceinline__ int following() const { return segment + (left > together && first + together == count); }
};

template <int T> constexpr int TOGETHER = T == 8 ? 2 : 1; // units that a warp multiplies at a time; of 16 rows the code of two is too long

// Sums of a unit are kept of the lanes whose rows are wanted: lane 4*g + q has rows 2q and 2q+1 of each eight.
template <int T>
struct Wanted {
    int log; // lanes q of each g: 1 << log
    __device__ Wanted(int rows) : log(T == 8 ? (rows > 2) + (rows > 4) : 2) {}
    __device__ int quads() const { return 1 << log; }
    __device__ int lanes() const { return T << log; }               // sums of a unit
    __device__ int room() const { return CHUNK / (16 * lanes()); }  // units of a chunk
    __device__ bool has(int lane) const { return lane % 4 < quads(); }
    __device__ int at(int unit, int j, int lane) const { return unit * lanes() + (j * 8 + lane / 4 << log) + lane % 4; }
};

// bring_strips fills the ring of a using warp, number `user` of so many; each lane of a whole warp one, those past the last none.
template <class L, int T, int WARPS>
__device__ __forceinline__ void bring_strips(Ring& ring, const Strips& m, int block, int user) {
    constexpr int S = TOGETHER<T>;
    Chunks chunk(m, block);
    Units units = {};
    int i = 0, at = 0, left = 0; // the strip that comes, of those multiplied together, and its tiles
    const uint8_t* from[S] = {};
    int part[S] = {};
    bool more = user < WARPS;
    Ring behind = ring; // at the first stage that is on its way
    behind.parity ^= 1;
    int issued = 0;
    while (__any_sync(~0u, more)) {
        if (more && left == 0) {
            while (!units.next(S) && (more = chunk.next())) units.of(chunk, user, WARPS);
            if (more) {
                int segment = chunk.segment + units.segment;
#pragma unroll
                for (int j = 0; j < S; j++) {
                    int strip = chunk.strip + min(units.first + j, chunk.count - 1), of = m.find(strip);
                    from[j] = m.w(of) + (size_t)(strip / 4) * m.ktiles * L::bytes, part[j] = strip % 4;
                }
                at = segment * SEGMENT, left = m.tiles(segment);
            }
        }
        if (more && !quiet_ && ring.is_empty() && (issued < FLIGHT || behind.is_full())) {
            int n = min(PIECE<L>, left);
            barrier_expect(ring.full(), n * L::strip);
            bulk_copy_once(ring.at(), (i == 0 ? from[0] : from[S - 1]) + strip_at<L>(i == 0 ? part[0] : part[S - 1], at, m.ktiles), n * L::strip, ring.full());
            ring.next();
            if (issued < FLIGHT) issued++;
            else behind.next();
            if (++i == units.together) i = 0, left -= n, at += n;
        }
    }
}

// Rows are the rows of x as the B operands of k16 steps. Of up to 8 they come run by run (four tiles) into shared memory of the warp,
// [K/8][rows][8], the next run while one is read if there is room for two. Of 16 a segment is in registers, and no mail: a warp would wait for all
// of it before it multiplies.
template <int T>
struct Rows;

template <>
struct Rows<8> {
    static constexpr int ROW = RUN * 128; // bytes of a row of a run
    const half* x;
    bool mail;                  // it is; then it is tiles of so many rows as are wanted
    int rows, ktiles;           // wanted; tiles of K
    bool two;                   // there is room for two runs
    uint32_t at, from;          // the warp's memory: run r lies in place r % 2 of two; where the lane reads
    int here[2] = {-1, -1};     // the runs there
    bool pending = false;       // the one asked for last may be on its way

    __device__ __forceinline__ Rows(const half* x_, bool mail_, int rows_, int ktiles_, int room, uint32_t at_) : x(x_), mail(mail_), rows(min(8, rows_)), ktiles(ktiles_), two(room > 1), at(at_) {
        int lane = thread() % 32;
        from = at + (lane / 8 * rows + min(lane % 8, rows - 1)) * 16; // who has no row: any
    }
    __device__ __forceinline__ bool second(int run) const { return two && run % 2; }
    __device__ __forceinline__ bool is_here(int run) const { return (second(run) ? here[1] : here[0]) == run; }
    __device__ __forceinline__ void ask(int run, int lane) {
        if (!is_here(run) && run * RUN * 8 + lane < ktiles * 8) { // eight k of each row
            const uint8_t* from = (const uint8_t*)x + ((size_t)run * RUN * 8 + lane) * 128;
            uint32_t to = at + second(run) * rows * ROW + lane * rows * 16;
            for (int r = 0; r < rows; r++) asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to + 16 * r), "l"(from + 16 * r) : "memory");
        }
        (second(run) ? here[1] : here[0]) = run;
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    // receive brings a run and, if it is not here, the next one, when they have come: two rows at a time.
    __device__ __forceinline__ void receive(int run, int next, int lane) {
        const bool one = run * RUN * 8 + lane < ktiles * 8, two = !is_here(next) && next != run && next * RUN * 8 + lane < ktiles * 8;
#pragma unroll 1
        for (int r = 0; r < rows; r += 2) {
            const half *from = x + ((run * RUN * 8 + lane) * rows + r) * 8, *then = x + ((next * RUN * 8 + lane) * rows + r) * 8;
            uint4 a = {}, b = {}, c = {}, d = {};
            do {
                if (one) a = get_halves(from);
                if (two) b = get_halves(then);
                if (one && r + 1 < rows) c = get_halves(from + 8);
                if (two && r + 1 < rows) d = get_halves(then + 8);
            } while (absent_half(most(most(most(a), most(b)), most(most(c), most(d)))));
            auto keep = [&](int run, int r, uint4 v) {
                uint32_t to = at + second(run) * rows * ROW + (lane * rows + r) * 16;
                asm volatile("st.shared.v4.u32 [%0],{%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
            };
            if (one) keep(run, r, a);
            if (two) keep(next, r, b);
            if (one && r + 1 < rows) keep(run, r + 1, c);
            if (two && r + 1 < rows) keep(next, r + 1, d);
        }
        (second(run) ? here[1] : here[0]) = run, (second(next) ? here[1] : here[0]) = next;
    }
    // need returns when a run is here, having asked for the one that is needed next, if that has another place.
    __device__ __forceinline__ void need(int run, int next, int lane) {
        bool more = second(next) != second(run) && !is_here(next);
        if (!pending && !more && is_here(run)) return;
        __syncwarp(); // all have read what is overwritten
        if (mail) {
            if (!is_here(run)) receive(run, more ? next : run, lane);
            __syncwarp();
            return;
        }
        ask(run, lane);
        if (more) {
            ask(next, lane);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        pending = more;
        __syncwarp();
    }
    // tile is where the lane reads tile `tile` of a run that is here; load gives b of its k16 steps.
    __device__ __forceinline__ uint32_t tile(int run, int tile) const { return from + second(run) * rows * ROW + tile * 128 * rows; }
    __device__ __forceinline__ void load(uint32_t (&b)[4][2], uint32_t from) const {
#pragma unroll
        for (int i = 0; i < 2; i++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                         : "=r"(b[2 * i][0]), "=r"(b[2 * i][1]), "=r"(b[2 * i + 1][0]), "=r"(b[2 * i + 1][1]) : "r"(from + i * 64 * rows) : "memory");
    }
};

template <>
struct Rows<16> {
    uint32_t b[4 * SEGMENT][4];
    const half* x;
    int rows, here = -1;

    __device__ __forceinline__ Rows(const half* x_, bool, int rows_, int, int, uint32_t) : b{}, x(x_), rows(rows_) {}

    // need loads a segment; of rows that nobody asked for zeros do.
    __device__ __forceinline__ void need(int segment, int tiles, int lane) {
        if (segment == here) return;
        const uint32_t* at = (const uint32_t*)x + (size_t)segment * SEGMENT * 512 + lane; // lane 4*g + q: k 2q, 2q+1 of row g
        asm volatile("" : "+l"(at)); // one address, and what is known of the rest
#pragma unroll
        for (int s = 0; s < 4 * SEGMENT; s++)
#pragma unroll
            for (int i = 0; i < 4; i++) b[s][i] = s / 4 < tiles && lane / 4 + i / 2 * 8 < rows ? __ldcg(at + (2 * s + i % 2) * 64 + i / 2 * 32) : 0;
        here = segment;
    }
};

// multiply_two continues the chains of two strips by a tile of each, for the same rows: one chain waits while the other goes on.
template <class L>
__device__ __forceinline__ void multiply_two(float (&c)[2][4], const L (&tile)[2], const uint32_t (&b)[4][2]) {
#pragma unroll
    for (int ks = 0; ks < 4; ks++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t a[4];
            tile[i].fragment(ks, a);
            mma(c[i], a, b[ks][0], b[ks][1]);
        }
}

// multiply_units computes a warp's units of a chunk into `sums`, of up to 8 rows.
template <class L>
__device__ __forceinline__ void multiply_units(Way& way, Rows<8>& x, const Strips& m, const Chunks& chunk, const Wanted<8>& wanted, Units units, float4* sums, int lane) {
#pragma unroll 1
    while (units.next(TOGETHER<8>)) {
        const bool both = units.together > 1;
        const int first = (chunk.segment + units.segment) * (SEGMENT / RUN), following = (chunk.segment + units.following()) * (SEGMENT / RUN);
        const int tiles = m.tiles(chunk.segment + units.segment);
        float c[2][4] = {};
#pragma unroll 1
        for (int from = 0; from < tiles; from += PIECE<L>) {
            const int run = first + from / RUN, here = min(PIECE<L>, tiles - from);
            x.need(run, tiles - from > RUN - from % RUN ? run + 1 : following, lane);
            Way second = way;
            second.next();
            way.wait();
            if (both) second.wait();
            const uint8_t *one = way.at, *two = both ? second.at : one;
            uint32_t at = x.tile(run, from % RUN);
            auto multiply = [&](int k) {
                const L tile[] = {L(one + k * L::strip, lane), L(two + k * L::strip, lane)};
                uint32_t b[4][2];
                x.load(b, at);
                multiply_two(c, tile, b);
                at += 128 * x.rows;
            };
            if (here == PIECE<L>) {
#pragma unroll
                for (int k = 0; k < PIECE<L>; k++) multiply(k);
            } else {
#pragma unroll 1
                for (int k = 0; k < here; k++) multiply(k);
            }
            __syncwarp();
            if (lane == 0) {
                way.release();
                if (both) second.release();
            }
            way = second;
            if (both) way.next();
        }
        if (wanted.has(lane)) {
            sums[wanted.at(units.unit, 0, lane)] = make_float4(c[0][0], c[0][1], c[0][2], c[0][3]);
            if (both) sums[wanted.at(units.unit + 1, 0, lane)] = make_float4(c[1][0], c[1][1], c[1][2], c[1][3]);
        }
    }
}

// The same of 16 rows.
template <class L>
__device__ __forceinline__ void multiply_units(Way& way, Rows<16>& x, const Strips& m, const Chunks& chunk, const Wanted<16>& wanted, Units units, float4* sums, int lane) {
#pragma unroll 1
    while (units.next(TOGETHER<16>)) {
        const int segment = chunk.segment + units.segment, tiles = m.tiles(segment);
        x.need(segment, tiles, lane);
        float c[2][4] = {};
#pragma unroll
        for (int piece = 0; piece < SEGMENT; piece += PIECE<L>)
            if (piece < tiles) {
                way.wait();
#pragma unroll
                for (int k = piece; k < piece + PIECE<L>; k++)
                    if (k < tiles) {
                        const L tile(way.at + (k - piece) * L::strip, lane);
#pragma unroll
                        for (int ks = 0; ks < 4; ks++) {
                            uint32_t a[4];
                            tile.fragment(ks, a);
#pragma unroll
                            for (int j = 0; j < 2; j++) mma(c[j], a, x.b[4 * k + ks][2 * j], x.b[4 * k + ks][2 * j + 1]);
                        }
                    }
                __syncwarp();
                if (lane == 0) way.release();
                way.next();
            }
#pragma unroll
        for (int j = 0; j < 2; j++) sums[wanted.at(units.unit, j, lane)] = make_float4(c[j][0], c[j][1], c[j][2], c[j][3]);
    }
}

// Sum is what a thread adds up of a chunk, if anything: rows r and r+1, outputs o and o+8 of a strip. It is made before the chunk is
// multiplied, so that the scales come meanwhile.
struct Sum {
    float* to;
    float scale[2];
    int n, r, o, rows; // outputs of the weight; rows that are wanted, at most 2

    // find is for sum i of a strip of the chunk.
    template <int T>
    __device__ __forceinline__ void find(const Strips& m, int strip, const Wanted<T>& wanted, int rows_, int i) {
        int of = m.find(strip), unit = i >> wanted.log; // 8*j + g of a lane
        r = unit / 8 * 8 + 2 * (i & wanted.quads() - 1), o = strip * 16 + unit % 8;
        n = m.outputs(of), to = m.y(of) + (size_t)r * n + o, rows = o < n ? min(2, rows_ - r) : 0;
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = rows > 0 && o + 8 * h < n ? m.scales(of)[o + 8 * h] : 0;
    }
    // add adds a chunk's to total, which goes on where a strip takes several; then it is y of rows r and r+1 of o, then of o+8.
    __device__ __forceinline__ void add(const float4* from, int lanes, float4& total, const Chunks& chunk, float unscale) const {
        int first = 0;
        if (chunk.segment == 0) total = *from, first = 1;
#pragma unroll 4
        for (int s = first; s < chunk.deep; s++) {
            float4 v = from[s * chunk.count * lanes];
            total = make_float4(__fadd_rn(total.x, v.x), __fadd_rn(total.y, v.y), __fadd_rn(total.z, v.z), __fadd_rn(total.w, v.w));
        }
        if (chunk.segment + chunk.deep < chunk.segments) return;
        float by = __fmul_rn(scale[0], unscale);
        total.x = __fmul_rn(total.x, by), total.y = __fmul_rn(total.y, by);
        by = __fmul_rn(scale[1], unscale);
        total.z = __fmul_rn(total.z, by), total.w = __fmul_rn(total.w, by);
        put(to, total.x);
        if (rows > 1) put(to + n, total.y);
        if (o + 8 >= n) return;
        put(to + 8, total.z);
        if (rows > 1) put(to + n + 8, total.w);
    }
};

// Gated is the operand that gated products become: gate.cu's, of a multiple of 64 outputs.
template <int T>
struct Gated {
    half* y;
    float scale;
    int tile; // T, or as mail the rows that are wanted

    __device__ __forceinline__ void write(const Sum& s, const float4& g, const float4& u, Activation activation) const {
        auto one = [&](int r, int o, float g, float u) {
            float a = by_sigmoid(g, activation == Activation::silu ? Silu::z(g) : Gelu::z(g));
            put(y + operand_at(s.r + r, s.o + o, tile, s.n), __float2half_rn(__fmul_rn(__fmul_rn(a, u), scale)));
        };
        one(0, 0, g.x, u.x), one(0, 8, g.z, u.z);
        if (s.rows > 1) one(1, 0, g.y, u.y), one(1, 8, g.w, u.w);
    }
};

// multiply_strips computes this block's strips, by WARPS warps that all call it.
template <class L, int T, int WARPS>
__device__ __forceinline__ void multiply_strips(Ring& ring, const Strips& m, Rows<T> x, int rows, float unscale, Gated<T> gated, int block, int t) {
    int buffer = 0;
    float4 total = {}, with = {};
    const Wanted<T> wanted(rows);
    const int lanes = wanted.lanes(), pair = m.pair();
    Way way(ring);
    for (Chunks chunk(m, block); chunk.next(); buffer ^= 1) {
        Sum sum = {}, second = {}; // of gated products the second strip of a pair
        int strip = (t >> 3 + (T == 16) + wanted.log) * pair, i = t & lanes - 1;
        if (strip < chunk.count) {
            sum.find<T>(m, chunk.strip + strip, wanted, rows, i);
            if (T == 8 && m.activation != Activation::none) second.find<T>(m, chunk.strip + strip + 1, wanted, rows, i);
        }
        Units units = {};
        units.of(chunk, t / 32, WARPS);
        multiply_units<L>(way, x, m, chunk, wanted, units, sums_[buffer], t % 32);
        meet<32 * WARPS>();
        if (sum.rows <= 0) continue;
        const float4* from = sums_[buffer] + strip * lanes + i;
        sum.add(from, lanes, total, chunk, unscale);
        if (T != 8 || m.activation == Activation::none) continue;
        second.add(from + lanes, lanes, with, chunk, unscale);
        gated.write(sum, total, with, m.activation);
    }
    way.end(ring);
}
