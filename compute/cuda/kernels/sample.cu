// sample_adjust, sample_scan, sample_weigh, (sample_select.cu), sample_total, sample_draw, sample_finish, sample_restore: a token of each row of
// logits, and what is asked of its probability. The tokens and bits are those of package sample, which states every formula and order.
//
//   adjust   changes the logits of some tokens, and keeps what they were; restore puts that back
//   scan     the first candidate: the largest logit, the smallest token of equal ones; NaN and +Inf come before all
//   weigh    sums of e^(logit-largest), for log-probabilities; counts and masses by the first 11 bits of a key, and deviations, for filters
//   select   what the filters leave; the likeliest tokens
//   total    sums of e^((logit-first)/temperature) of what the filters leave, for its log-probabilities
//   draw     the largest logit/temperature + noise of what the filters leave
//   finish   the answer
//
// A block takes a segment of 4096 tokens of a row: as many blocks as a row has segments share it, whatever the number of rows.
// A row that does not want a stage passes it by; a stage that no row wants is not launched.
//
// Order    thread t of 256 adds the weights of tokens t, t+256, .. of the segment, ascending; then the upper half of the threads
//          onto the lower until one is left; segments ascending. Counts and masses are integers: any order.
// Needs    vocab <= 2^20; a Row for each row, of any content.
// Launch   grid (ceil(vocab/4096), rows), block 256; finish: grid rows, block 256; adjust and restore: grid (4, rows), block 256.
#include "sample.cuh"

// each_adjustment calls f(logit, index) for a row's adjustments.
template <class F>
__device__ __forceinline__ void each_adjustment(float* logits, const Draw& d, const Adjustment* all, int vocab, F f) {
    float* x = logits + (size_t)blockIdx.y * vocab;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < d.adjustments; i += gridDim.x * 256) {
        uint32_t token = all[d.adjustment + i].token & 0x7fffffff;
        if (token < (uint32_t)vocab) f(x[token], d.adjustment + i);
    }
}

// adjusted is sample.Adjustment's formula.
__device__ __forceinline__ float adjusted(float x, float add, bool repeats, double repeat) {
    const double most = 0x1.fffffep+127;
    double y = x;
    if (!(fabs(y) <= most)) return x;
    if (add == -INFINITY) return add;
    if (repeats) y = y > 0 ? y / repeat : y * repeat;
    y = y + (double)add;
    return __double2float_rn(fmin(fmax(y, -most), most));
}

KERNEL(256) sample_adjust(float* logits, float* were, const Draw* draws, const Adjustment* all, int vocab) {
    start();
    Draw d = draws[blockIdx.y];
    each_adjustment(logits, d, all, vocab, [&](float& x, int i) {
        were[i] = x;
        x = adjusted(x, all[i].add, all[i].token >> 31, d.repeat);
    });
}

KERNEL(256) sample_restore(float* logits, const float* were, const Draw* draws, const Adjustment* all, int vocab) {
    start();
    each_adjustment(logits, draws[blockIdx.y], all, vocab, [&](float& x, int i) { x = were[i]; });
}

KERNEL(256) sample_scan(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ uint64_t part[8];
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    const Draw& d = draws[blockIdx.y];
    if (!d.asked) return;
    uint64_t best = 0;
#pragma unroll
    for (int j = 0; j < SEGMENT / 256; j++) {
        int i = segment * SEGMENT + j * 256 + t;
        if (i < vocab) best = max(best, candidate(key_of(x[i]), i));
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
    if (t % 32 == 0) part[t / 32] = best;
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < 8; i++) best = max(best, part[i]);
        r->best[segment] = best;
    }
    if (d.weigh & (COUNTS | MASSES))
        for (int i = segment * 256 + t; i < BINS; i += gridDim.x * 256) r->count[i] = 0, r->mass[i] = 0;
}

// fold adds up the threads' values, in the order above; thread 0 gets the sum.
__device__ double fold(double* lane, double v) {
    int t = threadIdx.x;
    __syncthreads();
    lane[t] = v;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) lane[t] = lane[t] + lane[t + half];
    }
    return lane[0];
}

KERNEL(256) sample_weigh(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ double lane[256];
    __shared__ Histogram<3> bin;
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    Draw d = draws[blockIdx.y];
    if (!d.weigh) return;
    uint64_t first = first_of(r, gridDim.x);
    if (fault_of(first)) return;
    float largest = x[token_of(first)];
    float v[SEGMENT / 256];
#pragma unroll
    for (int j = 0; j < SEGMENT / 256; j++) {
        int i = segment * SEGMENT + j * 256 + t;
        v[j] = i < vocab ? x[i] : -INFINITY; // weighs nothing and is no candidate
    }
    if (d.weigh & SUMS) {
        double sum = 0;
#pragma unroll 4
        for (int j = 0; j < SEGMENT / 256; j++) sum = sum + exp64((double)v[j] - (double)largest);
        sum = fold(lane, sum);
        if (t == 0) r->sum[segment] = sum;
    }
    if (d.weigh & DEVIATIONS) {
        double sum = 0, squares = 0;
        int finite = 0;
        for (int j = 0; j < SEGMENT / 256; j++)
            if (v[j] > -INFINITY) {
                double deviation = (double)v[j] - (double)largest;
                sum = sum + deviation, squares = squares + deviation * deviation, finite++;
            }
        sum = fold(lane, sum);
        if (t == 0) r->deviation[segment] = sum;
        squares = fold(lane, squares);
        if (t == 0) r->square[segment] = squares;
        double all = fold(lane, finite); // at most 4096: exact
        if (t == 0) r->finite[segment] = (int)all;
    }
    if (!(d.weigh & (COUNTS | MASSES))) return;
    bool masses = d.weigh & MASSES;
    bin.clear();
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < SEGMENT / 256; j++)
        if (v[j] > -INFINITY) bin.add(key_of(v[j]) >> 21, masses ? units_of(v[j], largest, d.binned) : 0);
    __syncthreads();
    for (int i = t; i < BINS; i += 256)
        if (bin.count[i]) {
            atomicAdd(&r->count[i], bin.count[i]);
            if (masses) atomicAdd((unsigned long long*)&r->mass[i], (unsigned long long)bin.mass(i));
        }
}

KERNEL(256) sample_total(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ double lane[256];
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    Draw d = draws[blockIdx.y];
    if (!d.filtered || d.temperature == 0) return;
    uint64_t first = first_of(r, gridDim.x);
    if (fault_of(first)) return;
    Run left = left_of(d, r, first);
    float largest = x[token_of(left.first)];
    double sum = 0;
#pragma unroll 4
    for (int j = 0; j < SEGMENT / 256; j++) {
        int i = segment * SEGMENT + j * 256 + t;
        if (i < vocab && left.has(candidate(key_of(x[i]), i))) sum = sum + exp64(exponent(x[i], largest, d.temperature));
    }
    sum = fold(lane, sum);
    if (t == 0) r->sum[segment] = sum;
}

// Best is a score and its token: larger scores win, and of equal ones the smaller token.
struct Best {
    double score;
    int token;
    __device__ void take(double s, int t) {
        if (s > score || s == score && t < token) score = s, token = t;
    }
    __device__ void reduce() { // over a warp
#pragma unroll
        for (int step = 16; step > 0; step /= 2) take(__shfl_xor_sync(~0u, score, step), __shfl_xor_sync(~0u, token, step));
    }
};

// Noise is evaluated where it could win only: every thread starts from the score of the first candidate.
KERNEL(256) sample_draw(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ Best part[8];
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    Draw d = draws[blockIdx.y];
    if (d.token != DRAWN) return;
    uint64_t first = first_of(r, gridDim.x);
    if (fault_of(first)) return;
    Run left = left_of(d, r, first);
    int token = token_of(left.first);
    double temperature = d.temperature;
    if (t == 0) {
        uint4 w = noise_words(d.seed, d.position, token / 4);
        uint32_t word[4] = {w.x, w.y, w.z, w.w};
        part[0] = {(double)x[token] / temperature + gumbel(word[token % 4]), token};
    }
    __syncthreads();
    Best best = part[0];
    __syncthreads();
    for (int group = segment * (SEGMENT / 4) + t; group < min((segment + 1) * (SEGMENT / 4), (vocab + 3) / 4); group += 256) {
        float v[4];
        double y[4];
        bool any = false;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = 4 * group + j < vocab ? x[4 * group + j] : -INFINITY;
            y[j] = (double)v[j] / temperature;
            any |= y[j] + GUMBEL_MAX >= best.score;
        }
        if (!any) continue;
        uint4 w = noise_words(d.seed, d.position, group);
        uint32_t word[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (y[j] + gumbel_bound(word[j]) < best.score) continue;
            if (!left.has(candidate(key_of(v[j]), 4 * group + j))) continue;
            best.take(y[j] + gumbel(word[j]), 4 * group + j);
        }
    }
    best.reduce();
    if (t % 32 == 0) part[t / 32] = best;
    __syncthreads();
    if (t == 0) {
        for (int i = 1; i < 8; i++) best.take(part[i].score, part[i].token);
        r->score[segment] = best.score, r->token[segment] = best.token;
    }
}

KERNEL(256) sample_finish(Answer* answers, Likely* likely, const Row* rows, const float* logits, const Draw* draws, int vocab, int segments, int stride) {
    start();
    const Row* r = rows + blockIdx.x;
    const float* x = logits + (size_t)blockIdx.x * vocab;
    Answer* a = answers + blockIdx.x;
    Draw d = draws[blockIdx.x];
    if (!d.asked) return;
    uint64_t first = first_of(r, segments);
    bool again = d.token == CHOSEN; // the first asking has left a token, or a fault
    int fault = again ? a->fault : fault_of(first), token = again ? a->token : token_of(first);
    if (fault) {
        if (threadIdx.x == 0) a->token = token, a->fault = fault;
        return;
    }
    Run left = left_of(d, r, first);
    if (d.token == GREEDY) token = token_of(left.first);
    else if (d.token == DRAWN) {
        Best best = {r->score[0], r->token[0]};
        for (int i = threadIdx.x % 32; i < segments; i += 32) best.take(r->score[i], r->token[i]);
        best.reduce();
        token = best.token;
    } else if (!again) token = d.token;
    float logProb = 0;
    if (d.logProb || d.top > 0) {
        bool one = d.filtered && d.temperature == 0;
        float largest = x[token_of(d.filtered ? left.first : first)];
        double sum = one ? 0 : log_sum(r, segments);
        auto of = [&](int i) {
            if (!d.filtered) return (float)(((double)x[i] - (double)largest) - sum);
            if (one) return i == token_of(left.first) ? 0.f : -INFINITY;
            return left.has(candidate(key_of(x[i]), i)) ? (float)(exponent(x[i], largest, d.temperature) - sum) : -INFINITY;
        };
        if (d.logProb) logProb = of(token);
        Likely* l = likely + (size_t)blockIdx.x * stride;
        if (d.top > 0)
            for (int i = threadIdx.x; i < a->top; i += 256) l[i].logProb = of(l[i].token);
    }
    __syncthreads(); // every thread has read the first asking's
    if (threadIdx.x == 0) a->token = token, a->logProb = logProb, a->fault = fault;
}
