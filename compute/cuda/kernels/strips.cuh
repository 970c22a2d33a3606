// A matmul of few rows, as one block of many that stay sees it: y = x·Wᵀ for an operand of one tile of T rows (8 or 16), up to three
// weights of one layout at once.
//
//        K →   segment 0   segment 1         a block: strips of 16 outputs next to each other, all of K
//   strip 0  ┌───────────┬───────────┬─ ─    a unit: a segment of a strip, by one warp. Those of a segment come one after another, so that a
//   strip 1  ├───────────┼───────────┼─ ─          warp loads its part of x once, into registers
//                 C0     +     C1    + ..    sums meet in shared memory, a chunk of units at a time: y/(row's scale), in this order
//
// Of 8 rows a warp multiplies two strips at a time, so that one chain of products waits while the other goes on. Each warp has a ring of
// its own, that a lane of a bringing warp fills with W in the order in which the warp will ask for it.
//
// Order    matmul.cu's: k16 steps ascending within a segment of 512 of K, segments added ascending.
#pragma once
#include "layouts.cuh"
#include "operand.cuh"
#include "ring.cuh"

constexpr int SEGMENT = 8;        // tiles of K
constexpr int CHUNK = 16 << 10;   // bytes of a chunk's sums; while one is added up the next is made. One that is all has twice as many
constexpr int FLIGHT = 2;         // stages on their way to a warp, at most: what others wait for waits behind them
__shared__ float4 sums_[2][CHUNK / 16];

// Strips are the strips of up to three weights, numbered through: y [rows, n], w, scales and n of each lie in args.
struct Strips {
    const uint64_t* args;
    int ktiles;

    __device__ int outputs(int i) const { return (int)args[4 * i + 3]; }
    __device__ int strips(int i) const { return (outputs(i) + 15) / 16; }
    __device__ int count() const { return strips(0) + strips(1) + strips(2); }
    __device__ int segments() const { return (ktiles + SEGMENT - 1) / SEGMENT; }
    __device__ int tiles(int segment) const { return min(SEGMENT, ktiles - segment * SEGMENT); }
    // find gives the weight of a strip, which becomes the number in it.
    __device__ int find(int& strip) const {
        int i = 0;
        while (strip >= strips(i)) strip -= strips(i++);
        return i;
    }
    __device__ float* y(int i) const { return (float*)args[4 * i]; }
    __device__ const uint8_t* w(int i) const { return (const uint8_t*)args[4 * i + 1]; }
    __device__ const float* scales(int i) const { return (const float*)args[4 * i + 2]; }
};

// Chunks are what a block does: `count` strips from `strip` on, and of each `deep` segments from `segment` on.
struct Chunks {
    int last, segments, room, most; // strips end; segments of strips in a chunk at most, strips of it
    int strip, count, segment, deep;

    __device__ Chunks(const Strips& s, int room_, int most_, int block, int blocks) : segments(s.segments()), room(room_), most(most_), count(0), segment(0), deep(0) {
        int all = s.count();
        strip = (uint32_t)(block * all) / (uint32_t)blocks, last = (uint32_t)((block + 1) * all) / (uint32_t)blocks;
        if (last - strip <= most && (last - strip) * segments <= 2 * room) room *= 2; // it is all that the block does
    }
    __device__ bool next() {
        segment += deep;
        if (segment == segments) segment = 0, strip += count;
        if (strip >= last) return false;
        deep = min(segments - segment, room), count = min(last - strip, min(most, max(1, room / segments)));
        return true;
    }
    // begin is the first unit of a warp of so many; a unit is a segment of `most` strips next to each other, u that of strips
    // most*(u % groups) on.
    __device__ int groups(int most) const { return (count + most - 1) / most; }
    __device__ int begin(int warp, int warps, int most) const { return warp * groups(most) * deep / warps; }
};

template <int T> constexpr int ROOM = CHUNK / (64 * T);    // segments of strips in a chunk
template <int T> constexpr int TOGETHER = T == 8 ? 2 : 1; // strips that a warp multiplies at a time

// bring_strips fills the ring of a using warp, number `user` of so many; each lane of a whole warp one, those past the last none.
template <class L, int T, int WARPS>
__device__ __forceinline__ void bring_strips(Ring& ring, const Strips& m, int block, int blocks, int user) {
    constexpr int S = TOGETHER<T>;
    Chunks chunk(m, ROOM<T>, WARPS * 8 / T, block, blocks); // a thread adds up one sum at most
    int u = 0, end = 0;                                     // units of the chunk
    int strips = 0, i = 0, at = 0, left = 0;                // of the unit: strips, the one that comes, and its tiles
    const uint8_t* from[S] = {};
    int part[S] = {};
    bool more = user < WARPS;
    Ring behind = ring; // at the first stage that is on its way
    behind.parity ^= 1;
    int issued = 0;
    while (__any_sync(~0u, more)) {
        if (more && left == 0) {
            while (u == end && (more = chunk.next())) u = chunk.begin(user, WARPS, S), end = chunk.begin(user + 1, WARPS, S);
            if (more) {
                int groups = chunk.groups(S), first = u % groups * S, segment = chunk.segment + u / groups;
                strips = min(S, chunk.count - first);
#pragma unroll
                for (int j = 0; j < S; j++) {
                    int strip = chunk.strip + min(first + j, chunk.count - 1), of = m.find(strip);
                    from[j] = m.w(of) + (size_t)(strip / 4) * m.ktiles * L::bytes, part[j] = strip % 4;
                }
                at = segment * SEGMENT, left = m.tiles(segment), u++;
            }
        }
        if (more && ring.is_empty() && (issued < FLIGHT || behind.is_full())) {
            int n = min(PIECE<L>, left);
            barrier_expect(ring.full(), n * L::strip);
            bulk_copy_once(ring.at(), (i == 0 ? from[0] : from[S - 1]) + strip_at<L>(i == 0 ? part[0] : part[S - 1], at, m.ktiles), n * L::strip, ring.full());
            ring.next();
            if (issued < FLIGHT) issued++;
            else behind.next();
            if (++i == strips) i = 0, left -= n, at += n;
        }
    }
}

// Rows are a segment of x as the B operands of its k16 steps.
template <int T>
struct Rows {
    uint32_t b[4 * SEGMENT][T / 4];

    // load brings a segment's; of rows that nobody asked for zeros do.
    __device__ __forceinline__ void load(const half* x, int segment, int tiles, int rows, int lane) {
        const uint32_t* at = (const uint32_t*)x + (size_t)segment * SEGMENT * 32 * T + lane; // lane 4*g + q: k 2q, 2q+1 of row g
#pragma unroll
        for (int s = 0; s < 4 * SEGMENT; s++)
#pragma unroll
            for (int i = 0; i < T / 4; i++) b[s][i] = s / 4 < tiles && lane / 4 + i / 2 * 8 < rows ? __ldcg(at + (2 * s + i % 2) * 4 * T + i / 2 * 32) : 0;
    }
};

// multiply_units computes a warp's units [u, end) of a chunk into `sums`; now holds the rows of segment `loaded`. Of 8 rows there is room
// for those of the next unit's segment beside them.
template <class L, int T>
__device__ __forceinline__ void multiply_units(Ring& ring, Rows<T>& now, int& loaded, const Strips& m, const Chunks& chunk, const half* x, int rows, int u, int end,
                                               float4* sums, int lane) {
    constexpr int S = TOGETHER<T>;
    int groups = chunk.groups(S);
    for (; u < end; u++) {
        int first = u % groups * S, segment = chunk.segment + u / groups, tiles = m.tiles(segment);
        bool both = S > 1 && first + 1 < chunk.count;
        if (segment != loaded) now.load(x, segment, tiles, rows, lane), loaded = segment;
        [[maybe_unused]] Rows<T> then;
        if constexpr (T == 8) {
            segment = u + 1 < end ? chunk.segment + (u + 1) / groups : loaded;
            then.load(x, segment, segment == loaded ? 0 : m.tiles(segment), rows, lane);
        }
        float c[S][T / 8][4] = {};
#pragma unroll
        for (int piece = 0; piece < SEGMENT; piece += PIECE<L>)
            if (piece < tiles) {
                ring.wait_full();
                Ring second = ring;
                second.next();
                if (both) second.wait_full();
                const uint8_t *one = ring.at(), *two = both ? second.at() : one;
#pragma unroll
                for (int k = piece; k < piece + PIECE<L>; k++)
                    if (k < tiles) {
                        const L tile[] = {L(one + (k - piece) * L::strip, lane), L(two + (k - piece) * L::strip, lane)};
#pragma unroll
                        for (int ks = 0; ks < 4; ks++)
#pragma unroll
                            for (int i = 0; i < S; i++) {
                                uint32_t a[4];
                                tile[i].fragment(ks, a);
#pragma unroll
                                for (int j = 0; j < T / 8; j++) mma(c[i][j], a, now.b[4 * k + ks][2 * j], now.b[4 * k + ks][2 * j + 1]);
                            }
                    }
                ring.release(lane);
                if (both) ring.release(lane);
            }
#pragma unroll
        for (int i = 0; i < S; i++)
#pragma unroll
            for (int j = 0; j < T / 8; j++)
                if (first + i < chunk.count)
                    sums[((u / groups * chunk.count + first + i) * (T / 8) + j) * 32 + lane] = make_float4(c[i][j][0], c[i][j][1], c[i][j][2], c[i][j][3]);
        if constexpr (T == 8)
            if (segment != loaded) now = then, loaded = segment;
    }
}

// Sum is what a thread adds up of a chunk, if anything: rows r and r+1, outputs o and o+8 of a strip. It is made before the chunk is
// multiplied, so that the scales come meanwhile.
struct Sum {
    float* to;
    float scale[2], unscale;
    int n, rows; // outputs of the weight; rows that are wanted, at most 2
    bool both;   // there is output o+8

    template <int T>
    __device__ __forceinline__ void find(const Strips& m, const Chunks& chunk, int rows_, float unscale_, int i) {
        int strip = chunk.strip + i / (4 * T), of = i < chunk.count * 4 * T ? m.find(strip) : 0;
        int r = i / 32 % (T / 8) * 8 + 2 * (i % 4), o = strip * 16 + i % 32 / 4;
        n = m.outputs(of), rows = i < chunk.count * 4 * T ? min(2, rows_ - r) : 0, to = m.y(of) + (size_t)r * n + o;
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = rows > 0 && o + 8 * h < n ? m.scales(of)[o + 8 * h] : 0;
        unscale = unscale_;
        if (o >= n) rows = 0;
        both = o + 8 < n;
    }
    // add adds; total is what goes on where a strip takes several chunks.
    template <int T>
    __device__ __forceinline__ void add(const float4* from, float4& total, const Chunks& chunk) const {
        if (rows <= 0) return;
        int first = 0;
        if (chunk.segment == 0) total = *from, first = 1;
        for (int s = first; s < chunk.deep; s++) {
            float4 v = from[s * chunk.count * 4 * T];
            total = make_float4(__fadd_rn(total.x, v.x), __fadd_rn(total.y, v.y), __fadd_rn(total.z, v.z), __fadd_rn(total.w, v.w));
        }
        if (chunk.segment + chunk.deep < chunk.segments) return;
        float by = __fmul_rn(scale[0], unscale);
        to[0] = __fmul_rn(total.x, by);
        if (rows > 1) to[n] = __fmul_rn(total.y, by);
        if (!both) return;
        by = __fmul_rn(scale[1], unscale);
        to[8] = __fmul_rn(total.z, by);
        if (rows > 1) to[n + 8] = __fmul_rn(total.w, by);
    }
};

// multiply_strips computes this block's strips, by WARPS warps that all call it.
template <class L, int T, int WARPS>
__device__ __forceinline__ void multiply_strips(Ring& ring, const Strips& m, const half* x, int rows, float unscale, int block, int blocks, int t) {
    int loaded = -1, buffer = 0;
    Rows<T> of = {};
    float4 total = {};
    for (Chunks chunk(m, ROOM<T>, WARPS * 8 / T, block, blocks); chunk.next(); buffer ^= 1) {
        Sum sum;
        sum.find<T>(m, chunk, rows, unscale, t);
        int u = chunk.begin(t / 32, WARPS, TOGETHER<T>), end = chunk.begin(t / 32 + 1, WARPS, TOGETHER<T>);
        multiply_units<L, T>(ring, of, loaded, m, chunk, x, rows, u, end, sums_[buffer], t % 32);
        meet<32 * WARPS>();
        sum.add<T>(sums_[buffer] + t, total, chunk);
    }
}
