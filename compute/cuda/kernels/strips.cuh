// A matmul of few rows, as one block of many that stay sees it: y = x·Wᵀ for an operand of one tile of T rows (8 or 16), up to four
// weights of one layout at once.
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
#include "layouts.cuh"
#include "operand.cuh"
#include "ring.cuh"

constexpr int SEGMENT = 8;        // tiles of K
constexpr int CHUNK = 16 << 10;   // bytes of a chunk's sums; while one is added up the next is made. One that is all has twice as many
constexpr int FLIGHT = 2;         // stages on their way to a warp, at most: what others wait for waits behind them
__shared__ float4 sums_[2][CHUNK / 16];

// Strips are the strips of up to four weights, numbered through: y [rows, n], w, scales and n of each lie in args.
struct Strips {
    const uint64_t* args;
    int ktiles;

    __device__ int outputs(int i) const { return (int)args[4 * i + 3]; }
    __device__ int strips(int i) const { return (outputs(i) + 15) / 16; }
    __device__ int count() const { return strips(0) + strips(1) + strips(2) + strips(3); }
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
    // begin is the first unit of a warp of so many; unit u is segment u / count of strip u % count. together is how many of those from u on,
    // up to `most` of one segment, are multiplied at a time.
    __device__ int begin(int warp, int warps) const { return warp * count * deep / warps; }
    __device__ int together(int u, int end, int most) const { return min(most, min(count - u % count, end - u)); }
};

template <int T> constexpr int TOGETHER = T == 8 ? 2 : 1; // units that a warp multiplies at a time

// Sums of a unit are kept of the lanes whose rows are wanted: lane 4*g + q has rows 2q and 2q+1 of each eight.
template <int T>
struct Wanted {
    int quads; // lanes q of each g
    __device__ Wanted(int rows) : quads(T == 8 ? min(4, (rows + 1) / 2) : 4) {}
    __device__ int lanes() const { return quads * T; }                        // sums of a unit
    __device__ int room() const { return CHUNK / (16 * lanes()); }            // units of a chunk
    __device__ int most(int threads) const { return threads / lanes(); }      // strips of it, as a thread adds up one sum
    __device__ bool has(int lane) const { return lane % 4 < quads; }
    __device__ int at(int unit, int j, int lane) const { return unit * lanes() + j * 8 * quads + lane / 4 * quads + lane % 4; }
};

// bring_strips fills the ring of a using warp, number `user` of so many; each lane of a whole warp one, those past the last none.
template <class L, int T, int WARPS>
__device__ __forceinline__ void bring_strips(Ring& ring, const Strips& m, int rows, int block, int blocks, int user) {
    constexpr int S = TOGETHER<T>;
    const Wanted<T> wanted(rows);
    Chunks chunk(m, wanted.room(), wanted.most(32 * WARPS), block, blocks);
    int u = 0, end = 0;                      // units of the chunk
    int strips = 0, i = 0, at = 0, left = 0; // of those multiplied together: strips, the one that comes, and its tiles
    const uint8_t* from[S] = {};
    int part[S] = {};
    bool more = user < WARPS;
    Ring behind = ring; // at the first stage that is on its way
    behind.parity ^= 1;
    int issued = 0;
    while (__any_sync(~0u, more)) {
        if (more && left == 0) {
            while (u == end && (more = chunk.next())) u = chunk.begin(user, WARPS), end = chunk.begin(user + 1, WARPS);
            if (more) {
                int first = u % chunk.count, segment = chunk.segment + u / chunk.count;
                strips = chunk.together(u, end, S);
#pragma unroll
                for (int j = 0; j < S; j++) {
                    int strip = chunk.strip + min(first + j, chunk.count - 1), of = m.find(strip);
                    from[j] = m.w(of) + (size_t)(strip / 4) * m.ktiles * L::bytes, part[j] = strip % 4;
                }
                at = segment * SEGMENT, left = m.tiles(segment), u += strips;
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

// Rows are the rows of x as the B operands of k16 steps. Of up to 8 they come run by run (four tiles) into shared memory of the warp,
// [K/8][rows][8], the next run while one is read if there is room for two. Of 16 a segment is in registers.
template <int T>
struct Rows;

template <>
struct Rows<8> {
    static constexpr int ROW = RUN * 128; // bytes of a row of a run
    const half* x;
    int rows, room;             // wanted; runs
    uint32_t at;                // the warp's memory: run r lies in place r % room
    int here[2] = {-1, -1};     // the runs there
    bool pending = false;       // some are on their way

    __device__ __forceinline__ Rows(const half* x_, int rows_, int room_, uint32_t at_) : x(x_), rows(min(8, rows_)), room(room_), at(at_) {}

    __device__ __forceinline__ bool second(int run) const { return room > 1 && run % 2; }
    __device__ __forceinline__ void ask(int run, int tiles, int lane) {
        if ((second(run) ? here[1] : here[0]) == run) return;
        __syncwarp();
        const uint8_t* from = (const uint8_t*)x + (size_t)run * RUN * 1024;
        for (int i = lane; i < tiles * 8 * rows; i += 32) // row i % rows of eight k
            asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(at + second(run) * rows * ROW + 16 * i), "l"(from + (i / rows * 8 + i % rows) * 16) : "memory");
        (second(run) ? here[1] : here[0]) = run;
        pending = true;
    }
    // need returns when a run is here; then asks for the one that is needed next, if that has another place. tiles are those of the runs.
    __device__ __forceinline__ void need(int run, int tiles, int next, int nextTiles, int lane) {
        ask(run, tiles, lane);
        if (pending) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncwarp();
            pending = false;
        }
        if (second(run) != second(next)) ask(next, nextTiles, lane);
    }
    // load gives b of the k16 steps of a tile of a run that is here.
    __device__ __forceinline__ void load(uint32_t (&b)[4][2], int run, int tile, int lane) const {
        uint32_t from = at + second(run) * rows * ROW + tile * 128 * rows + (lane / 8 * rows + min(lane % 8, rows - 1)) * 16; // who has no row: any
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

    __device__ __forceinline__ Rows(const half* x_, int rows_, int, uint32_t) : b{}, x(x_), rows(rows_) {}

    // need loads a segment; of rows that nobody asked for zeros do.
    __device__ __forceinline__ void need(int segment, int tiles, int lane) {
        if (segment == here) return;
        const uint32_t* at = (const uint32_t*)x + (size_t)segment * SEGMENT * 512 + lane; // lane 4*g + q: k 2q, 2q+1 of row g
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

// multiply_units computes a warp's units [u, end) of a chunk into `sums`, of up to 8 rows.
template <class L>
__device__ __forceinline__ void multiply_units(Ring& ring, Rows<8>& x, const Strips& m, const Chunks& chunk, const Wanted<8>& wanted, int u, int end, float4* sums, int lane) {
    for (int n; u < end; u += n) {
        n = chunk.together(u, end, 2);
        int segment = chunk.segment + u / chunk.count, tiles = m.tiles(segment);
        float c[2][4] = {};
#pragma unroll 1
        for (int from = 0; from < tiles; from += RUN) {
            int end_ = min(tiles, from + RUN), run = (segment * SEGMENT + from) / RUN, next = run, left = tiles - end_;
            if (left > 0) next++;
            else if (u + n < end) next = (chunk.segment + (u + n) / chunk.count) * (SEGMENT / RUN), left = m.ktiles - next * RUN;
            x.need(run, end_ - from, next, min(RUN, left), lane);
            for (int k = from; k < end_;) {
                ring.wait_full();
                Ring second = ring;
                second.next();
                if (n > 1) second.wait_full();
                const uint8_t *one = ring.at(), *two = n > 1 ? second.at() : one;
#pragma unroll 1
                for (int last = min(end_, k + PIECE<L>); k < last; k++, one += L::strip, two += L::strip) {
                    const L tile[] = {L(one, lane), L(two, lane)};
                    uint32_t b[4][2];
                    x.load(b, run, k - from, lane);
                    multiply_two(c, tile, b);
                }
                ring.release(lane);
                if (n > 1) ring.release(lane);
            }
        }
        if (wanted.has(lane))
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (i < n) sums[wanted.at(u + i, 0, lane)] = make_float4(c[i][0], c[i][1], c[i][2], c[i][3]);
    }
}

// The same of 16 rows.
template <class L>
__device__ __forceinline__ void multiply_units(Ring& ring, Rows<16>& x, const Strips& m, const Chunks& chunk, const Wanted<16>& wanted, int u, int end, float4* sums, int lane) {
    for (; u < end; u++) {
        int segment = chunk.segment + u / chunk.count, tiles = m.tiles(segment);
        x.need(segment, tiles, lane);
        float c[2][4] = {};
#pragma unroll
        for (int piece = 0; piece < SEGMENT; piece += PIECE<L>)
            if (piece < tiles) {
                ring.wait_full();
                const uint8_t* one = ring.at();
#pragma unroll
                for (int k = piece; k < piece + PIECE<L>; k++)
                    if (k < tiles) {
                        const L tile(one + (k - piece) * L::strip, lane);
#pragma unroll
                        for (int ks = 0; ks < 4; ks++) {
                            uint32_t a[4];
                            tile.fragment(ks, a);
#pragma unroll
                            for (int j = 0; j < 2; j++) mma(c[j], a, x.b[4 * k + ks][2 * j], x.b[4 * k + ks][2 * j + 1]);
                        }
                    }
                ring.release(lane);
            }
#pragma unroll
        for (int j = 0; j < 2; j++) sums[wanted.at(u, j, lane)] = make_float4(c[j][0], c[j][1], c[j][2], c[j][3]);
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
    __device__ __forceinline__ void find(const Strips& m, const Chunks& chunk, const Wanted<T>& wanted, int rows_, float unscale_, int i) {
        int lanes = wanted.lanes(), strip = chunk.strip + i / lanes, of = i < chunk.count * lanes ? m.find(strip) : 0;
        int eight = 8 * wanted.quads, r = i % lanes / eight * 8 + 2 * (i % wanted.quads), o = strip * 16 + i % eight / wanted.quads;
        n = m.outputs(of), rows = i < chunk.count * lanes ? min(2, rows_ - r) : 0, to = m.y(of) + (size_t)r * n + o;
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = rows > 0 && o + 8 * h < n ? m.scales(of)[o + 8 * h] : 0;
        unscale = unscale_;
        if (o >= n) rows = 0;
        both = o + 8 < n;
    }
    // add adds; total is what goes on where a strip takes several chunks.
    __device__ __forceinline__ void add(const float4* from, int lanes, float4& total, const Chunks& chunk) const {
        if (rows <= 0) return;
        int first = 0;
        if (chunk.segment == 0) total = *from, first = 1;
        for (int s = first; s < chunk.deep; s++) {
            float4 v = from[s * chunk.count * lanes];
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
__device__ __forceinline__ void multiply_strips(Ring& ring, const Strips& m, Rows<T> x, int rows, float unscale, int block, int blocks, int t) {
    int buffer = 0;
    float4 total = {};
    const Wanted<T> wanted(rows);
    for (Chunks chunk(m, wanted.room(), wanted.most(32 * WARPS), block, blocks); chunk.next(); buffer ^= 1) {
        Sum sum;
        sum.find<T>(m, chunk, wanted, rows, unscale, t);
        multiply_units<L>(ring, x, m, chunk, wanted, chunk.begin(t / 32, WARPS), chunk.begin(t / 32 + 1, WARPS), sums_[buffer], t % 32);
        meet<32 * WARPS>();
        sum.add(sums_[buffer] + t, wanted.lanes(), total, chunk);
    }
}
