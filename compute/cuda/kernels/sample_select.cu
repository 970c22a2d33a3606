// sample_select: where top-k and top-p cut a row, and its likeliest tokens (sample.cu).
//
// A cut is the candidate, in the order of candidates, with which a count or a mass is complete. It is found on the keys of logits by
// their bits, 11, 11 and 10 of them: sample_weigh has made the first histogram, two more passes over the row narrow it
// down to one logit; where only some of the tokens that have it are kept, a pass over those finds the last.
//
//   top-k   the k-th candidate. Its cut also says the mass of all that it keeps.
//   top-p   the candidate with which the mass reaches ceil(topP * that mass)
//   top     as top-k; the candidates up to the cut, sorted
//
// Order    integers only: none matters.
// Launch   grid rows, block 1024, shared sizeof(Shared).
#include "sample.cuh"

constexpr int THREADS = 1024; // as many as the likeliest tokens may be
constexpr int LIST = 8192;

// Bin is some candidates: how many, and their mass.
struct Bin {
    uint32_t count;
    uint64_t mass;
    __device__ uint64_t measure(bool byMass) const { return byMass ? mass : count; }
    __device__ Bin operator+(Bin b) const { return {count + b.count, mass + b.mass}; }
};

// Found is a bin, and what the bins of larger keys hold together.
struct Found {
    int at; // -1: all bins together do not reach the target; above is what they hold
    Bin in, above;
};

struct Shared {
    Histogram<4> bins;
    uint32_t list[LIST]; // keys that wait to be weighed; then the likeliest candidates
    Bin warp[32];
    Found found;
    int listed, nth;
    double logSum;
};
static_assert(sizeof(Shared) == 74296, "as in sample.go");

// find looks, from the largest bin on, for that with which the count (or the mass) reaches a target of at least one. A thread
// brings two bins, high = 2047-2t and low, the next.
__device__ Found find(Shared& s, Bin high, Bin low, uint64_t target, bool byMass) {
    int t = threadIdx.x;
    Bin to = high + low; // up to and with this thread's bins
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        Bin b = {__shfl_up_sync(~0u, to.count, step), __shfl_up_sync(~0u, to.mass, step)};
        if (t % 32 >= step) to = to + b;
    }
    if (t % 32 == 31) s.warp[t / 32] = to;
    __syncthreads();
    Bin before = {}; // this warp's
    for (int i = 0; i < t / 32; i++) before = before + s.warp[i];
    to = before + to;
    Bin above = {to.count - low.count - high.count, to.mass - low.mass - high.mass};
    if (above.measure(byMass) < target && target <= to.measure(byMass)) {
        if (target <= (above + high).measure(byMass)) s.found = {BINS - 1 - 2 * t, high, above};
        else s.found = {BINS - 2 - 2 * t, low, above + high};
    } else if (t == THREADS - 1 && to.measure(byMass) < target) s.found = {-1, {}, to};
    __syncthreads();
    return s.found;
}

// each calls f(token, logit) of the row's tokens.
template <class F>
__device__ __forceinline__ void each(const float* x, int vocab, F f) {
    for (int base = threadIdx.x; base < vocab; base += 16 * THREADS) {
        float v[16];
#pragma unroll
        for (int j = 0; j < 16; j++) v[j] = base + j * THREADS < vocab ? x[base + j * THREADS] : -INFINITY;
#pragma unroll
        for (int j = 0; j < 16; j++) f(base + j * THREADS, v[j]); // past the last token, -Inf is no candidate
    }
}

// each_of calls f(token, key) of the tokens whose keys begin with a prefix, short of its last bits.
template <class F>
__device__ __forceinline__ void each_of(const float* x, int vocab, uint32_t prefix, int bits, F f) {
    float least = logit_of(prefix << bits), most = logit_of((prefix + 1 << bits) - 1);
    each(x, vocab, [&](int i, float v) {
        if (v < least || v > most) return; // most tokens; -0 and 0 may pass where they should not
        uint32_t key = key_of(v);
        if (key >> bits == prefix) f(i, key);
    });
}

// nth is the n-th token of a key.
__device__ int nth(Shared& s, const float* x, int vocab, uint32_t key, uint32_t n) {
    int t = threadIdx.x;
    uint32_t seen = 0;
    for (int base = 0; base < vocab; base += THREADS) {
        bool is = base + t < vocab && key_of(x[base + t]) == key;
        uint32_t ballot = __ballot_sync(~0u, is);
        uint32_t all = __syncthreads_count(is);
        if (seen + all < n) {
            seen += all;
            continue;
        }
        if (t % 32 == 0) s.warp[t / 32].count = __popc(ballot);
        __syncthreads();
        for (int i = 0; i < t / 32; i++) seen += s.warp[i].count;
        if (is && seen + __popc(ballot & ((2u << t % 32) - 1)) == n) s.nth = base + t;
        __syncthreads();
        return s.nth;
    }
    return INT32_MAX; // n is at most as many as there are
}

struct Cut {
    uint32_t key;
    int token;
    uint64_t mass; // of all that it keeps
};

// select is the cut with which the count or the mass of the candidates reaches a target; all are kept if it does not.
__device__ Cut select(Shared& s, const Row* r, const float* x, int vocab, const Draw& d, float largest, uint64_t target, bool byMass) {
    int t = threadIdx.x, b = BINS - 2 - 2 * t;
    Found f = find(s, {r->count[b + 1], r->mass[b + 1]}, {r->count[b], r->mass[b]}, target, byMass);
    if (f.at < 0) return {KEY_BANNED, -1, f.above.mass};
    uint32_t prefix = f.at;
    Bin above = f.above;
    auto units = [&](uint32_t key) { return d.topP > 0 ? units_of(logit_of(key), largest, d.temperature) : 0; };

    // A warp would wait for the exponential of each of its few that are in the bin: they are listed first, then weighed side by
    // side. What the list does not hold is weighed on the way.
    s.bins.clear();
    if (t == 0) s.listed = 0;
    __syncthreads();
    auto add = [&](uint32_t key) { s.bins.add(key >> 10 & 2047, units(key)); };
    each_of(x, vocab, prefix, 21, [&](int, uint32_t key) {
        int at = d.topP > 0 ? atomicAdd(&s.listed, 1) : LIST;
        if (at < LIST) s.list[at] = key;
        else add(key);
    });
    __syncthreads();
    for (int i = t; i < min(s.listed, LIST); i += THREADS) add(s.list[i]);
    __syncthreads();
    f = find(s, {s.bins.count[b + 1], s.bins.mass(b + 1)}, {s.bins.count[b], s.bins.mass(b)}, target - above.measure(byMass), byMass);
    prefix = prefix << 11 | f.at;
    above = above + f.above;

    s.bins.clear();
    __syncthreads();
    each_of(x, vocab, prefix, 10, [&](int, uint32_t key) { atomicAdd(&s.bins.count[key & 1023], 1); });
    __syncthreads();
    auto of = [&](int bin) { // of one logit now: all weigh alike
        uint32_t n = s.bins.count[bin];
        return Bin{n, n ? n * units(prefix << 10 | bin) : 0};
    };
    f = find(s, of(b + 1), of(b), target - above.measure(byMass), byMass);
    uint32_t key = prefix << 10 | f.at;
    above = above + f.above;
    uint64_t weight = f.in.mass / f.in.count, left = target - above.measure(byMass);
    uint32_t n = byMass ? (left + weight - 1) / weight : left;
    return {key, n == f.in.count ? INT32_MAX : nth(s, x, vocab, key, n), above.mass + n * weight};
}

// sort puts the list, padded with zeros to a power of two, in descending order: a bitonic sort.
__device__ void sort(uint64_t* list, int n) {
    for (int size = 2; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int i = threadIdx.x, j = i ^ stride;
            if (i < n && j > i) {
                uint64_t a = list[i], b = list[j];
                if ((a < b) == ((i & size) == 0)) list[i] = b, list[j] = a;
            }
        }
    __syncthreads();
}

KERNEL(1024) sample_select(Answer* answers, Likely* likely, Row* rows, const float* logits, const Draw* draws, int vocab, int segments, int stride) {
    start();
    extern __shared__ uint64_t memory[];
    Shared& s = *(Shared*)memory;
    int t = threadIdx.x;
    Row* r = rows + blockIdx.x;
    const float* x = logits + (size_t)blockIdx.x * vocab;
    Draw d = draws[blockIdx.x];
    if (d.topK <= 0 && d.topP <= 0 && d.top <= 0) return;
    uint64_t first = first_of(r, segments);
    if (fault_of(first)) return;
    float largest = x[token_of(first)];
    if (d.topK > 0 || d.topP > 0) {
        // Without top-k: no row has 2^32-1 candidates, so this only adds up.
        Cut cut = select(s, r, x, vocab, d, largest, d.topK > 0 ? d.topK : UINT32_MAX, false);
        if (d.topP > 0) cut = select(s, r, x, vocab, d, largest, __double2ull_rz(ceil((double)d.topP * __ull2double_rn(cut.mass))), true);
        if (t == 0) r->cutKey = cut.key, r->cutToken = cut.token;
    }
    if (d.top <= 0) return;
    Cut cut = select(s, r, x, vocab, d, largest, d.top, false);
    __syncthreads();
    uint64_t* list = (uint64_t*)s.list;
    if (t == 0) s.listed = 0, s.logSum = log_sum(r, segments);
    list[t] = 0;
    __syncthreads();
    each(x, vocab, [&](int i, float v) {
        uint32_t key = key_of(v);
        if (key > cut.key || key == cut.key && i <= cut.token) list[atomicAdd(&s.listed, 1)] = candidate(key, i);
    });
    __syncthreads();
    int n = s.listed, padded = 2;
    while (padded < n) padded *= 2;
    sort(list, padded);
    if (t < n) {
        int token = token_of(list[t]);
        likely[(size_t)blockIdx.x * stride + t] = {token, (float)(((double)x[token] - (double)largest) - s.logSum)};
    }
    if (t == 0) answers[blockIdx.x].top = n;
}
