// sample_select: what the filters leave of a row, and its likeliest tokens (sample.cu).
//
// Every filter leaves a run of the order of candidates, so what is left is known by its first and its last. A filter that counts, or adds
// masses in whole units, finds the candidate with which a target is reached: by the bits of the keys of logits, 11, 11 and 10 of
// them. sample_weigh has made the first histogram, two more passes over the row narrow it down to one logit; where only some of
// the tokens that have it are kept, a pass over those finds the last. A filter that compares finds its logit by search among keys.
//
//   top-k    the k-th candidate. Its cut also says the mass of all that it keeps.
//   top-p    the candidate with which the mass reaches ceil(topP * the mass that is left)
//   min-p, top-n-sigma   the least logit for which a comparison holds
//   typical  the distance with which the mass reaches ceil(typical * ..), as top-p does it, on keys of distances; two searches for its logits
//   XTC      the least logit that is likely enough, and the last candidate from there on
//   top      as top-k; the candidates up to the cut, sorted
//
// Order    integers only, other than deviations (segments ascending): none matters.
// Launch   grid rows, block 1024, shared sizeof(Shared).
#include "sample.cuh"

constexpr int THREADS = 1024; // as many as the likeliest tokens may be
constexpr int LIST = 8192;

// units is units_of, called: its code would be there dozens of times.
__device__ __noinline__ uint64_t units(float x, float largest, float temperature) { return units_of(x, largest, temperature); }

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
    uint64_t part[32];
    Found found;
    int listed, nth;
};
static_assert(sizeof(Shared) == 74544, "as in sample.go");

// find looks, from the largest bin on, for that with which the count (or the mass) reaches a target of at least one. A thread
// brings two bins, high = 2047-2t and low, the next.
__device__ __noinline__ Found find(Shared& s, Bin high, Bin low, uint64_t target, bool byMass) {
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

// find_in looks in the histogram in shared memory.
__device__ Found find_in(Shared& s, uint64_t target, bool byMass) {
    __syncthreads();
    int b = BINS - 2 - 2 * threadIdx.x;
    return find(s, {s.bins.count[b + 1], s.bins.mass(b + 1)}, {s.bins.count[b], s.bins.mass(b)}, target, byMass);
}

// largest_of and sum_of are over all threads' values.
template <class F>
__device__ uint64_t reduce(Shared& s, uint64_t v, F f) {
    __syncthreads();
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v = f(v, __shfl_xor_sync(~0u, v, step));
    if (threadIdx.x % 32 == 0) s.part[threadIdx.x / 32] = v;
    __syncthreads();
    v = s.part[0];
    for (int i = 1; i < 32; i++) v = f(v, s.part[i]);
    return v;
}
__device__ uint64_t largest_of(Shared& s, uint64_t v) {
    return reduce(s, v, [](uint64_t a, uint64_t b) { return max(a, b); });
}
__device__ uint64_t sum_of(Shared& s, uint64_t v) {
    return reduce(s, v, [](uint64_t a, uint64_t b) { return a + b; });
}

// search is the least key from low on for which `enough` is true; it is so from there up to high.
template <class F>
__device__ uint32_t search(uint32_t low, uint32_t high, F enough) {
    while (low < high) { // by 1024 keys at a time
        uint32_t step = (high - low) / THREADS + 1;
        uint64_t key = low + (uint64_t)threadIdx.x * step;
        uint32_t few = __syncthreads_count(key < high && !enough((uint32_t)key));
        high = min((uint64_t)high, low + (uint64_t)few * step);
        if (few) low += (few - 1) * step + 1;
    }
    return low;
}

// each calls f(token, logit) of the row's tokens, a thread's N at a time: few where f computes much, for its code is there N times.
template <int N, class F>
__device__ __forceinline__ void each(const float* x, int vocab, F f) {
    for (int base = threadIdx.x; base < vocab; base += N * THREADS) {
        float v[N];
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = base + j * THREADS < vocab ? x[base + j * THREADS] : -INFINITY;
#pragma unroll
        for (int j = 0; j < N; j++) f(base + j * THREADS, v[j]); // past the last token, -Inf is no candidate
    }
}

// Cut is the last candidate that is kept. All tokens of the key are, where token is INT32_MAX.
struct Cut {
    uint32_t key;
    int token;
    Bin kept;
};

// Selection is a row and what filters have left of it, known to every thread alike.
struct Selection {
    Shared& s;
    Row* r;
    const float* x;
    int vocab;
    float largest;
    Run left;

    // r->count is of the candidates of `counted`, r->mass theirs, tempered by `tempered` (0: there is none). A run that has the same
    // first and no later last may be cut by them.
    Run counted;
    float tempered;
    Run summed; // a run whose mass, tempered by that, is `sum`
    uint64_t sum;

    // each_left calls f(token, logit, key) of the tokens that are left, if their logits are from least to most.
    template <class F>
    __device__ __forceinline__ void each_left(float least, float most, F f) {
        each<4>(x, vocab, [&](int i, float v) {
            if (v < least || v > most) return; // -0 and 0 may pass where they should not
            uint32_t key = key_of(v);
            if (left.has(candidate(key, i))) f(i, v, key);
        });
    }
    template <class F>
    __device__ __forceinline__ void each_left(F f) {
        each_left(logit_of(key_of(left.last)), logit_of(key_of(left.first)), f);
    }

    // each_of calls f(token, key) of the tokens whose keys begin with a prefix, short of its last bits, from the first that is left on.
    template <class F>
    __device__ __forceinline__ void each_of(uint32_t prefix, int bits, F f) {
        float least = logit_of(prefix << bits), most = logit_of((prefix + 1 << bits) - 1);
        each<16>(x, vocab, [&](int i, float v) {
            if (v < least || v > most) return; // most tokens; -0 and 0 may pass where they should not
            uint32_t key = key_of(v);
            if (key >> bits == prefix && candidate(key, i) <= left.first) f(i, key);
        });
    }

    // nth is the n-th token of a key, from the first that is left on.
    __device__ __noinline__ int nth(uint32_t key, uint32_t n) {
        int t = threadIdx.x;
        uint32_t seen = 0;
        for (int base = 0; base < vocab; base += THREADS) {
            bool is = base + t < vocab && key_of(x[base + t]) == key && candidate(key, base + t) <= left.first;
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

    // count makes the histogram of what is left.
    __device__ __noinline__ void count(float temperature) {
        __syncthreads();
        s.bins.clear();
        __syncthreads();
        each_left([&](int, float v, uint32_t key) { s.bins.add(key >> 21, temperature > 0 ? units(v, largest, temperature) : 0); });
        __syncthreads();
        for (int i = threadIdx.x; i < BINS; i += THREADS) r->count[i] = s.bins.count[i], r->mass[i] = s.bins.mass(i);
        __syncthreads();
        counted = left, tempered = temperature;
    }

    // need makes sure that what is left can be cut by counts, or by masses; all of it if it is to be added up.
    __device__ void need(float temperature, bool all) {
        if (counted.first != left.first || temperature > 0 && tempered != temperature || all && counted.last != left.last) count(temperature);
    }

    __device__ Found find_first(uint64_t target, bool byMass) {
        int b = BINS - 2 - 2 * threadIdx.x;
        return find(s, {r->count[b + 1], r->mass[b + 1]}, {r->count[b], r->mass[b]}, target, byMass);
    }

    // mass is that of all that is left.
    __device__ uint64_t mass(float temperature) {
        if (summed.first != left.first || summed.last != left.last || tempered != temperature) {
            need(temperature, true);
            summed = left, sum = find_first(UINT64_MAX, true).above.mass;
        }
        return sum;
    }

    __device__ uint64_t weight(uint32_t key) const { return tempered > 0 ? units(logit_of(key), largest, tempered) : 0; }

    // add counts a key by its second 11 bits.
    __device__ __noinline__ void add(uint32_t key) { s.bins.add(key >> 10 & 2047, weight(key)); }

    // reach is the cut with which the count or the mass from the first on reaches a target; all is kept if it does not.
    __device__ __noinline__ Cut reach(uint64_t target, bool byMass) {
        int t = threadIdx.x;
        bool masses = tempered > 0;
        Found f = find_first(target, byMass);
        if (f.at < 0) return {KEY_BANNED, -1, f.above};
        uint32_t prefix = f.at;
        Bin above = f.above;

        // A warp would wait for the exponential of each of its few that are in the bin: they are listed first, then weighed side by
        // side. What the list does not hold is weighed on the way.
        s.bins.clear();
        if (t == 0) s.listed = 0;
        __syncthreads();
        each_of(prefix, 21, [&](int, uint32_t key) {
            int at = masses ? atomicAdd(&s.listed, 1) : LIST;
            if (at < LIST) s.list[at] = key;
            else add(key);
        });
        __syncthreads();
        for (int i = t; i < min(s.listed, LIST); i += THREADS) add(s.list[i]);
        f = find_in(s, target - above.measure(byMass), byMass);
        prefix = prefix << 11 | f.at;
        above = above + f.above;

        s.bins.clear();
        __syncthreads();
        each_of(prefix, 10, [&](int, uint32_t key) { atomicAdd(&s.bins.count[key & 1023], 1); });
        __syncthreads();
        auto of = [&](int bin) { // of one logit now: all weigh alike
            uint32_t n = s.bins.count[bin];
            return Bin{n, n ? n * weight(prefix << 10 | bin) : 0};
        };
        int b = BINS - 2 - 2 * t;
        f = find(s, of(b + 1), of(b), target - above.measure(byMass), byMass);
        uint32_t key = prefix << 10 | f.at;
        above = above + f.above;
        uint64_t each = f.in.mass / f.in.count, rest = target - above.measure(byMass);
        uint32_t n = byMass ? (rest + each - 1) / each : rest;
        return {key, n == f.in.count ? INT32_MAX : nth(key, n), above + Bin{n, n * each}};
    }

    // cut takes away what comes after a candidate.
    __device__ void cut(uint64_t last) { left.last = max(left.last, last); }

    // cut takes away what comes after the key's tokens.
    __device__ void cut(uint32_t key) { cut(candidate(key, INT32_MAX)); }

    // cut takes away what comes after a cut, whose mass is known.
    __device__ void cut(const Cut& c) {
        uint64_t last = candidate(c.key, c.token);
        if (last <= left.last) return;
        left.last = last;
        if (tempered > 0) summed = left, sum = c.kept.mass;
    }

    __device__ void top_k(uint32_t k) {
        need(0, false);
        cut(reach(k, false));
    }

    __device__ void top_p(float p, float temperature) {
        uint64_t all = mass(temperature);
        if (all) cut(reach(__double2ull_rz(ceil((double)p * __ull2double_rn(all))), true));
        else cut(left.first);
    }

    __device__ void min_p(float p, float temperature) {
        uint32_t first = key_of(left.first);
        double floor = log64(p) + exponent(logit_of(first), largest, temperature);
        cut(search(key_of(left.last), first, [&](uint32_t key) { return exponent(logit_of(key), largest, temperature) >= floor; }));
    }

    __device__ void top_n_sigma(float n, int segments) {
        double sum = 0, squares = 0;
        int all = 0;
        for (int i = 0; i < segments; i++) sum = sum + r->deviation[i], squares = squares + r->square[i], all += r->finite[i];
        double mean = sum / (double)all;
        double sigma = sqrt(fmax(0., squares / (double)all - mean * mean));
        uint32_t first = key_of(left.first);
        double floor = (double)logit_of(first) - (double)n * sigma;
        cut(search(key_of(left.last), first, [&](uint32_t key) { return (double)logit_of(key) >= floor; }));
    }

    __device__ void typical(float p, float temperature) {
        uint64_t total = 0, moment = 0;
        each_left([&](int, float v, uint32_t) {
            double e = exponent(v, largest, temperature);
            if (e < -31) return;
            double weight = exp64(e);
            total += __double2ull_rz(weight * 0x1p44), moment += __double2ull_rz(weight * -e * 0x1p44);
        });
        total = sum_of(s, total), moment = sum_of(s, moment);
        if (total == 0) return;
        double mean = -(__ull2double_rn(moment) / __ull2double_rn(total));
        auto distance = [&](float v) { return __double2float_rn(fabs(exponent(v, largest, temperature) - mean)); };

        // The nearest candidate has the largest key here.
        uint64_t target = __double2ull_rz(ceil((double)p * __ull2double_rn(total)));
        uint32_t prefix = 0;
#pragma unroll 1
        for (int bits = 21; bits >= 0; bits -= bits > 10 ? 11 : bits > 0 ? 10 : 1) { // 21, 10, 0
            int width = bits ? 11 : 10;
            __syncthreads();
            s.bins.clear();
            __syncthreads();
            each_left([&](int, float v, uint32_t) {
                uint32_t near = ~__float_as_uint(distance(v));
                if (bits == 21 || near >> bits + width == prefix) s.bins.add(near >> bits & (1 << width) - 1, units(v, largest, temperature));
            });
            Found f = find_in(s, target, true);
            prefix = prefix << width | f.at;
            target -= f.above.mass;
        }
        float most = __uint_as_float(~prefix);

        uint32_t first = key_of(left.first), last = key_of(left.last);
        auto above = [&](uint32_t key) { return exponent(logit_of(key), largest, temperature) > mean && distance(logit_of(key)) > most; };
        auto within = [&](uint32_t key) { return exponent(logit_of(key), largest, temperature) >= mean || distance(logit_of(key)) <= most; };
        cut(search(last, first, within));
        if (above(first)) begin(candidate(search(last, first, above) - 1, 0));
    }

    // begin takes away what comes before a candidate, which need not exist.
    __device__ __noinline__ void begin(uint64_t first) {
        left.first = first;
        uint64_t best = 0;
        each_left([&](int i, float, uint32_t key) { best = max(best, candidate(key, i)); });
        left.first = largest_of(s, best);
    }

    __device__ void xtc(float threshold, float temperature) {
        uint64_t all = mass(temperature);
        if (all == 0) return;
        double floor = log64((double)threshold * __ull2double_rn(all) * 0x1p-44);
        auto likely = [&](uint32_t key) { return exponent(logit_of(key), largest, temperature) >= floor; };
        uint32_t first = key_of(left.first);
        if (!likely(first)) return;
        float least = logit_of(search(key_of(left.last), first, likely));
        uint64_t last = 0; // its complement
        each_left(least, logit_of(first), [&](int i, float, uint32_t key) { last = max(last, ~candidate(key, i)); });
        left.first = ~largest_of(s, last);
    }

    __device__ void filter(const Draw& d, int segments) {
        for (int i = 0; i < d.filters; i++) {
            float temperature = i < d.cold ? 1 : d.temperature;
            switch (d.filter[i]) {
            case TOP_N_SIGMA: top_n_sigma(d.sigmas, segments); break;
            case TOP_K: top_k(d.topK); break;
            case TYPICAL: typical(d.typical, temperature); break;
            case TOP_P: top_p(d.topP, temperature); break;
            case MIN_P: min_p(d.minP, temperature); break;
            case XTC: xtc(d.threshold, temperature); break;
            }
        }
    }
};

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

// likeliest lists the first n candidates of what is left, and returns how many there are.
__device__ __noinline__ int likeliest(Selection c, int n, Likely* to) {
    Shared& s = c.s;
    int t = threadIdx.x;
    c.need(0, false);
    c.cut(c.reach(n, false));
    __syncthreads();
    uint64_t* list = (uint64_t*)s.list;
    if (t == 0) s.listed = 0;
    list[t] = 0;
    __syncthreads();
    c.each_left([&](int i, float, uint32_t key) { list[atomicAdd(&s.listed, 1)] = candidate(key, i); });
    __syncthreads();
    n = s.listed;
    int padded = 2;
    while (padded < n) padded *= 2;
    sort(list, padded);
    if (t < n) to[t].token = token_of(list[t]);
    return n;
}

KERNEL(1024) sample_select(Answer* answers, Likely* likely, Row* rows, const float* logits, const Draw* draws, int vocab, int segments, int stride) {
    start();
    extern __shared__ uint64_t memory[];
    Row* r = rows + blockIdx.x;
    const float* x = logits + (size_t)blockIdx.x * vocab;
    Draw d = draws[blockIdx.x];
    if (!d.filters && d.top <= 0) return;
    uint64_t first = first_of(r, segments);
    if (fault_of(first)) return;
    Run all = {first, EVERYTHING};
    Run none = {0, 0};
    Selection c = {*(Shared*)memory, r, x, vocab, x[token_of(first)], all, d.weigh & (COUNTS | MASSES) ? all : none, d.weigh & MASSES ? d.binned : 0, none, 0};
    int top = 0;
    if (d.top > 0 && !d.filtered) top = likeliest(c, d.top, likely + (size_t)blockIdx.x * stride);
    c.filter(d, segments);
    if (d.top > 0 && d.filtered) top = likeliest(c, d.temperature > 0 ? d.top : 1, likely + (size_t)blockIdx.x * stride);
    if (threadIdx.x == 0) answers[blockIdx.x].top = top, r->first = c.left.first, r->last = c.left.last;
}
