// A delta net's rows where a sequence has few, as a block sees them: delta_convolve and delta_rule_128 in one, with their bits (delta.cu). A program
// has it as an operation, longer steps as a kernel (delta_few.cu).
//
//   a work    a sequence, a value head and a slice of its value columns. All value columns where there are works enough, else a half or a
//             quarter: a column depends on no other. The convolution is made where it is read: each block makes the queries and keys it needs
//   8 warps   up to two tiles of 8 value columns each, whose S they hold in registers as the B operand, and a tile of 8 rows of keys
//   a group   up to 8 of the sequence's rows: those of the same 8 rows of a page. The A operand has their keys above and their queries
//             below, so one chain of products serves both
//
//             S' (own columns)     page's keys              u (own columns)
//            ┌────────┐           ┌────────────┐           ┌────────┐
//   k of 8   │ ks     │           │ ak         │  ── ak ─> │ earlier blocks of 16 rows; the own one row by row
//   q of 8   │ qs     │           │ aq         │  ── aq ─> │ all blocks
//            └────────┘           └────────────┘           └────────┘
//
// What the page holds is asked for first, all at once; the convolution is computed while it comes. Keys and u lie in the memory of the
// matmuls' sums, which nobody needs meanwhile, rows of 16-byte parts in an order that keeps banks apart.
#pragma once
#include "async.cuh"
#include "attend_few.cuh"
#include "delta_rows.cuh"
#include "strips.cuh"

constexpr int STATE = 128;  // width of a head
constexpr int FEW_ROWS = 16; // of a chunk, and of a program's step, at most

// DeltaStep is the arguments of delta_convolve, in the place of whose first two are those that delta_rule has beside them. Those at 11, 12 and 17
// are not read. x, beta and alpha may be mail.
struct DeltaStep {
    const uint64_t* args;
    int mail; // a bit for each that is

    template <class P> __device__ __forceinline__ P* p(int i) const { return (P*)args[i]; }
    __device__ __forceinline__ int i(int n) const { return (int)args[n]; }
    __device__ __forceinline__ float* spare() const { return p<float>(0); }
    __device__ __forceinline__ bool grouped() const { return i(1) != 0; }
    __device__ __forceinline__ float* out() const { return p<float>(2); }
    __device__ __forceinline__ const ChunkEntry* chunks() const { return p<ChunkEntry>(10); }
    __device__ __forceinline__ const int* order(int rows) const { return (const int*)(chunks() + rows); } // of a step of so many
    __device__ __forceinline__ DeltaShape shape() const { return {i(13), i(14), i(15), i(16), STATE, i(18)}; }
    __device__ __forceinline__ float eps() const { return __uint_as_float((uint32_t)args[19]); }
};

// DeltaWork is one work of a block.
struct DeltaWork {
    int sequence, head, key, columns, column; // columns of the slice, and its first
    bool keeper;                              // stores what the value heads of a key head share

    __device__ __forceinline__ DeltaWork(const DeltaStep& d, int slices, int number) {
        int heads = d.i(16), keyHeads = d.i(15), perKey = heads / keyHeads, slice = number % slices;
        head = number / slices % heads, sequence = number / slices / heads;
        columns = STATE / slices, column = slice * columns;
        key = d.grouped() ? head / perKey : head % keyHeads;
        keeper = slice == 0 && (d.grouped() ? head % perKey == 0 : head < keyHeads);
    }
};

// read_first is the page that a chunk's first row reads: a page's first row reads the one before.
__device__ __forceinline__ DeltaPage read_first(const DeltaStep& d, const ChunkEntry& chunk) {
    return DeltaPage(d.p<uint8_t>(9), d.shape(), chunk.pages[chunk.position % PAGE > 0]);
}

// prefetch_state brings S and the keys that a work reads to the L2 cache, prefetch_u its u, of which it may not need all. One thread; the chunk
// does not begin its sequence.
__device__ __forceinline__ void prefetch_state(const DeltaStep& d, const DeltaWork& k, const ChunkEntry& chunk) {
    const int first = chunk.position % PAGE;
    const DeltaPage page = read_first(d, chunk);
    const size_t state = ((size_t)k.head * STATE + k.column) * STATE;
    if (first) bulk_prefetch(page.s16 + state, k.columns * STATE * 2);
    else bulk_prefetch(page.s32 + state, k.columns * STATE * 4);
    bulk_prefetch(page.k + (size_t)k.key * PAGE * STATE, (first ? first : PAGE) * STATE * 2);
}
__device__ __forceinline__ void prefetch_u(const DeltaStep& d, const DeltaWork& k, const ChunkEntry& chunk) {
    bulk_prefetch(read_first(d, chunk).u + ((size_t)k.head * STATE + k.column) * PAGE, k.columns * PAGE * 2);
}

// DeltaScratch is shared memory of a block's group, beside keys and u.
struct __align__(16) DeltaScratch {
    half q[8][STATE + 8];
    half a[16][PAGE + 8]; // ak of the group's rows, then aq
    half v[8][STATE];
    float g[PAGE], b[8]; // of the page; of the group
};

__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

// DeltaBlock is a thread's part of a work, by 256 threads that all call its methods.
struct DeltaBlock {
    const DeltaStep d;
    DeltaScratch& s;
    const DeltaWork k;
    const Chunk chunk;
    int t, w, lane, g, q;
    int mine, tile; // tiles of 8 columns of this warp, at most 2, and the first of them in the slice

    __device__ __forceinline__ DeltaBlock(const DeltaStep& d, DeltaScratch& s, const DeltaWork& k, const Chunk& chunk, int t)
        : d(d), s(s), k(k), chunk(chunk), t(t), w(t / 32), lane(t % 32), g(lane / 4), q(lane % 4) {
        int tiles = k.columns / 8;
        mine = tiles > 8 ? 2 : w < tiles ? 1 : 0, tile = tiles > 8 ? 2 * w : w;
    }

    // Keys of 64 rows, then u of the slice's columns: parts of eight halves.
    __device__ __forceinline__ half* keys(int row, int part) const { return (half*)sums_ + row * STATE + (part ^ row % 8) * 8; }
    __device__ __forceinline__ half* u(int column, int part) const { return (half*)sums_ + PAGE * STATE + column * PAGE + (part ^ column % 8) * 8; }

    // page is that of row i; s32 and s16 are the warp's columns of S as it began: of one that is not kept they lie elsewhere.
    __device__ __forceinline__ DeltaPage page(int i) const {
        return DeltaPage(d.p<uint8_t>(9), d.shape(), chunk.page((chunk.position + i) / PAGE));
    }
    __device__ __forceinline__ size_t states() const { return (size_t)(k.column + tile * 8) * STATE; }
    __device__ __forceinline__ float* spare() const { return d.spare() + ((size_t)k.sequence * d.i(16) + k.head) * STATE * STATE * 3 / 2; }
    __device__ __forceinline__ float* s32(const DeltaPage& p) const { return (p.kept() ? p.s32 + (size_t)k.head * STATE * STATE : spare()) + states(); }
    __device__ __forceinline__ half* s16(const DeltaPage& p) const {
        return (p.kept() ? p.s16 + (size_t)k.head * STATE * STATE : (half*)(spare() + STATE * STATE)) + states();
    }
    __device__ __forceinline__ size_t us() const { return ((size_t)k.head * STATE + k.column) * PAGE; }

    // ask asks for a page's first n rows: keys, u, sums of decays. u of the rest is zero once it is all there and tidy() has been called.
    __device__ __forceinline__ void ask(const DeltaPage& page, int n) const {
        const half* from = page.k + (size_t)k.key * PAGE * STATE;
#pragma unroll 1
        for (int i = t; i < n * (STATE / 8); i += 256) copy_16(keys(i / (STATE / 8), i % (STATE / 8)), from + i * 8);
        from = page.u + us() + tile * 8 * PAGE;
#pragma unroll 1
        for (int i = lane; i < mine * 8 * (PAGE / 8); i += 32) {
            half* to = u(tile * 8 + i / 8, i % 8);
            if (i % 8 * 8 < n) copy_16(to, from + i * 8);
            else *(uint4*)to = make_uint4(0, 0, 0, 0);
        }
        if (t < n) copy_4(s.g + t, page.g + (size_t)k.head * PAGE + t);
    }
    __device__ __forceinline__ void tidy(int n) const {
        __syncwarp();
        if (n % 8 && lane < mine * 8)
            for (int r = n % 8; r < 8; r++) u(tile * 8 + lane, n / 8)[r] = __float2half_rn(0);
    }
    __device__ __forceinline__ void forget_u() const {
        for (int i = lane; i < mine * 8 * (PAGE / 8); i += 32) *(uint4*)u(tile * 8 + i / 8, i % 8) = make_uint4(0, 0, 0, 0);
    }

    // begin stores an S of zeros, and advance the one that the page before ends with, whose rows are in shared memory. What a lane stores of the
    // halves is what it reads of them.
    __device__ __forceinline__ void begin(float* s32, half* s16) const {
        for (int i = lane; i < mine * 8 * STATE / 4; i += 32) ((float4*)s32)[i] = make_float4(0, 0, 0, 0), ((uint2*)s16)[i] = make_uint2(0, 0);
    }
    __device__ __forceinline__ void advance(float* to32, half* to16, const float* from) const {
        float top = s.g[PAGE - 1], e = ex2(__fmul_rn(top, LOG2E));
#pragma unroll 1
        for (int i = t; i < PAGE * STATE / 8; i += 256) {
            int row = i / (STATE / 8);
            uint4* at = (uint4*)keys(row, i % (STATE / 8));
            float v[8], f = decay(top, s.g[row]);
            load8(v, (const half*)at);
#pragma unroll
            for (int e = 0; e < 8; e++) v[e] = __fmul_rn(f, v[e]);
            *at = halves(v);
        }
        meet<256>();
        uint32_t a[PAGE / 16][4];
#pragma unroll
        for (int j = 0; j < PAGE / 16; j++) load_tiles(a[j], shared_address(u(tile * 8 + (mine > 1 ? lane % 16 : lane % 8), 2 * j + lane / 16)));
#pragma unroll 1
        for (int n0 = 0; n0 < STATE / 8; n0 += 4) { // 32 columns of keys
            float2 old[4][2] = {};
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (i < mine) old[n][i] = __ldcg((const float2*)(from + (8 * i + g) * STATE + (n0 + n) * 8 + 2 * q));
#pragma unroll
            for (int n = 0; n < 4; n++) {
                float c[4] = {};
#pragma unroll
                for (int j = 0; j < PAGE / 16; j += 2) {
                    uint32_t b[4];
                    load_transposed(b, shared_address(keys(16 * j + lane, n0 + n)));
                    mma(c, a[j], b[0], b[1]), mma(c, a[j + 1], b[2], b[3]);
                }
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (i < mine) {
                        float2 v = make_float2(__fmaf_rn(e, old[n][i].x, c[2 * i]), __fmaf_rn(e, old[n][i].y, c[2 * i + 1]));
                        *(float2*)(to32 + (8 * i + g) * STATE + (n0 + n) * 8 + 2 * q) = v;
                        *(uint32_t*)(to16 + state_at(i, (n0 + n) / 2, STATE, lane) + n % 2 * 2) = half2_bits(v.x, v.y);
                    }
            }
        }
        meet<256>();
    }

    // convolve makes queries, keys and values of rows i .. i+n-1, which stand at `first` of the page, and keeps the keys. The last warps begin:
    // they have no columns, where there are few works.
    __device__ __forceinline__ void convolve(const DeltaPage& page, int i, int first, int n) const {
        DeltaShape shape = d.shape();
#pragma unroll 1
        for (int pair = 7 - w; 2 * pair < 3 * n; pair += 8) { // half a warp has a row's query, key or value
            int unit = 2 * pair + lane / 16, part = unit % 3, r = unit / 3, c = lane % 16 * 8;
            int column = part == 0 ? k.key * STATE : part == 1 ? (shape.keyHeads + k.key) * STATE : (2 * shape.keyHeads + k.head) * STATE + k.column;
            bool does = unit < 3 * n && (part < 2 || c < k.columns);
            float v[8] = {};
            if (does) conv_8(v, d.p<float>(3), d.p<float>(4), d.p<uint8_t>(9), chunk, shape, i + r, column + c, part == 2 || k.keeper, d.mail & 1);
            normalise(v, column + c, shape.keyHeads * STATE, STATE, d.eps());
            if (!does) continue;
            uint4 bits = halves(v);
            if (part == 0) *(uint4*)&s.q[(first + r) % 8][c] = bits;
            if (part == 2) *(uint4*)&s.v[(first + r) % 8][c] = bits;
            if (part == 1) {
                *(uint4*)keys(first + r, c / 8) = bits;
                if (k.keeper && page.kept()) *(uint4*)(page.k + ((size_t)k.key * PAGE + first + r) * STATE + c) = bits;
            }
        }
    }

    // forget makes b and the sums of decays of such rows. A whole warp calls it.
    __device__ __forceinline__ void forget(const DeltaPage& page, int i, int first, int n) const {
        float* sums = page.kept() ? page.g + (size_t)k.head * PAGE : nullptr;
        float sum = first == 0 ? 0 : i == 0 ? sums[first - 1] : s.g[first - 1], f = 0;
        if (lane < n) {
            size_t from = (size_t)chunk.order[i + lane] * d.i(16) + k.head;
            s.b[(first + lane) % 8] = learning(receive_one(d.p<float>(5) + from, d.mail & 2));
            f = forgetting(receive_one(d.p<float>(6) + from, d.mail & 4), d.p<float>(7)[k.head], d.p<float>(8)[k.head]);
        }
#pragma unroll 1
        for (int r = 0; r < n; r++) {
            sum = __fadd_rn(sum, __shfl_sync(~0u, f, r));
            if (lane == 0) s.g[first + r] = sum;
            if (lane == 0 && k.column == 0 && sums) sums[first + r] = sum;
        }
    }

    __device__ __forceinline__ int first(int i) const { return (chunk.position + i) % PAGE; }
    __device__ __forceinline__ int rows(int i) const { return min(8 - first(i) % 8, chunk.rows - i); } // of the group

    // open makes S and an empty u of the page that begins with row i.
    __device__ __forceinline__ void open(int i) const {
        const DeltaPage page = this->page(i);
        if (chunk.position + i == 0) {
            begin(s32(page), s16(page));
        } else {
            const DeltaPage past = this->page(i - 1);
            if (i == 0) {
                ask(past, PAGE);
                copied();
                meet<256>();
            }
            advance(s32(page), s16(page), s32(past));
        }
        forget_u();
    }

    // gather brings what the group of row i reads, all but S.
    __device__ __forceinline__ void gather(int i) const {
        const DeltaPage page = this->page(i);
        int first = this->first(i), n = rows(i);
        if (i == 0 && first > 0) ask(page, first);
        convolve(page, i, first, n);
        if (w == 5) forget(page, i, first, n);
    }

    // compute is that group, once gather has been called.
    __device__ __forceinline__ void compute(int i) const {
        const DeltaPage page = this->page(i);
        const int first = this->first(i), end = first + rows(i), eight = first / 8, block = first / 16, row = 8 * eight + g; // row: this lane's
        uint32_t state[2][STATE / 16][2]; // S of the warp's columns
        {
            const half* from = s16(page);
#pragma unroll
            for (int x = 0; x < 2; x++)
#pragma unroll
                for (int j = 0; j < STATE / 16; j++) {
                    uint2 v = x < mine ? __ldcg((const uint2*)(from + state_at(x, j, STATE, lane))) : make_uint2(0, 0);
                    state[x][j][0] = v.x, state[x][j][1] = v.y;
                }
        }
        if (i == 0) copied(), tidy(first);
        meet<256>();
        float c[2][4] = {}, p[4] = {}; // what the columns of S give keys (0, 1) and queries (2, 3); what the warp's eight rows of keys, from 8*m on
        const int m = 7 - w;
#pragma unroll
        for (int j = 0; j < STATE / 16; j += 2) {
            uint32_t a[2][4], b[4];
#pragma unroll
            for (int x = 0; x < 2; x++) {
                int part = 2 * (j + x) + lane / 16;
                load_tiles(a[x], shared_address(lane / 8 % 2 ? &s.q[lane % 8][part * 8] : keys(8 * eight + lane % 8, part)));
            }
            load_tiles(b, shared_address(keys(8 * m + lane % 8, 2 * j + lane / 8)));
#pragma unroll
            for (int x = 0; x < 2; x++) {
                if (mine > 0) mma(c[0], a[x], state[0][j + x][0], state[0][j + x][1]);
                if (mine > 1) mma(c[1], a[x], state[1][j + x][0], state[1][j + x][1]);
                mma(p, a[x], b[2 * x], b[2 * x + 1]);
            }
        }
        if (m < 2 * block + 2) {
            float v[4];
#pragma unroll
            for (int x = 0; x < 4; x++) {
                int j = 8 * m + 2 * q + x % 2;
                bool counts = x < 2 ? j < row : j <= row;
                v[x] = counts ? __fmul_rn(p[x], decay(s.g[row], s.g[j])) : 0;
            }
            *(uint32_t*)&s.a[g][8 * m + 2 * q] = half2_bits(v[0], v[1]);
            *(uint32_t*)&s.a[8 + g][8 * m + 2 * q] = half2_bits(v[2], v[3]);
        }
        meet<256>();
        if (mine > 0) {
            float o[2][4] = {}; // what u of blocks gives ak (0, 1) and aq (2, 3)
            auto add = [&](int j) {
                uint32_t a[4], b[4];
                load_tiles(a, shared_address(&s.a[lane % 16][16 * j + lane / 16 * 8]));
                load_tiles(b, shared_address(u(tile * 8 + (mine > 1 ? lane / 16 * 8 : 0) + lane % 8, 2 * j + lane / 8 % 2)));
                mma(o[0], a, b[0], b[1]);
                if (mine > 1) mma(o[1], a, b[2], b[3]);
            };
#pragma unroll 1
            for (int j = 0; j < block; j++) add(j);
            float e = ex2(__fmul_rn(s.g[row], LOG2E));
#pragma unroll 1
            for (int r = first; r < end; r++) {
                if (row == r) {
                    const uint4 a[2] = {*(const uint4*)&s.a[g][16 * block], *(const uint4*)&s.a[g][16 * block + 8]};
#pragma unroll
                    for (int x = 0; x < 4; x++)
                        if (x / 2 < mine) {
                            int column = (tile + x / 2) * 8 + 2 * q + x % 2;
                            const uint4 own[2] = {*(const uint4*)u(column, 2 * block), *(const uint4*)u(column, 2 * block + 1)};
                            float v = __fsub_rn(__fmaf_rn(-e, c[x / 2][x % 2], __half2float(s.v[g][column])), o[x / 2][x % 2]);
#pragma unroll
                            for (int j = 0; j < 15; j++)
                                if (16 * block + j < r) v = __fmaf_rn(-__half2float(((const half*)a)[j]), __half2float(((const half*)own)[j]), v);
                            half learnt = __float2half_rn(__fmul_rn(s.b[g], v));
                            u(column, r / 8)[r % 8] = learnt;
                            if (page.kept()) page.u[us() + column * PAGE + r] = learnt;
                        }
                }
                __syncwarp();
            }
            add(block);
            if (row >= first && row < end) {
                float* to = d.out() + ((size_t)chunk.order[i + row - first] * d.i(16) + k.head) * STATE + k.column + tile * 8 + 2 * q;
#pragma unroll
                for (int x = 0; x < 2; x++)
                    if (x < mine) put(to + 8 * x, __fmaf_rn(e, c[x][2], o[x][2]), __fmaf_rn(e, c[x][3], o[x][3]));
            }
        }
        meet<256>();
    }
};

// compute_chunk is a work, by 256 threads that all call it. OPEN, GATHER and COMPUTE are calls of a block's methods of these names.
