// sample_scan, sample_weigh, (sample_select.cu), sample_draw, sample_finish: a token of each row of logits, and what is asked of
// its probability. The tokens and bits are those of package sample, which states every formula and order.
//
//   scan    the first candidate: the largest logit, the smallest token of equal ones; NaN and +Inf come before all
//   weigh   sums of e^(logit-largest), for log-probabilities; counts and masses by the first 11 bits of a key, for filters
//   select  where top-k and top-p cut; the likeliest tokens
//   draw    the largest logit/temperature + noise of what the cut and min-p leave
//   finish  the answer
//
// A block takes a segment of 4096 tokens of a row: as many blocks as a row has segments share it, whatever the number of rows.
// A row that does not want a stage passes it by; a stage that no row wants is not launched.
//
// Order    thread t of 256 adds the weights of tokens t, t+256, .. of the segment, ascending; then the upper half of the threads
//          onto the lower until one is left; segments ascending. Counts and masses are integers: any order.
// Needs    vocab <= 2^20; a Row for each row, of any content.
// Launch   grid (ceil(vocab/4096), rows), block 256; finish: grid rows, block 32.
#include "sample.cuh"

__device__ __forceinline__ bool counts(const Draw& d) { return d.topK > 0 || d.topP > 0 || d.top > 0; }

KERNEL(256) sample_scan(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ uint64_t part[8];
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
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
    if (counts(draws[blockIdx.y]))
        for (int i = segment * 256 + t; i < BINS; i += gridDim.x * 256) r->count[i] = 0, r->mass[i] = 0;
}

KERNEL(256) sample_weigh(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ double lane[256];
    __shared__ Histogram<3> bin;
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    Draw d = draws[blockIdx.y];
    bool sums = d.logProb || d.top > 0, bins = counts(d);
    if (!sums && !bins) return;
    uint64_t first = first_of(r, gridDim.x);
    if (fault_of(first)) return;
    float largest = x[token_of(first)];
    float v[SEGMENT / 256];
#pragma unroll
    for (int j = 0; j < SEGMENT / 256; j++) {
        int i = segment * SEGMENT + j * 256 + t;
        v[j] = i < vocab ? x[i] : -INFINITY; // weighs nothing and is no candidate
    }
    if (sums) {
        double sum = 0;
#pragma unroll 4
        for (int j = 0; j < SEGMENT / 256; j++) sum = sum + exp64((double)v[j] - (double)largest);
        lane[t] = sum;
        for (int half = 128; half > 0; half /= 2) {
            __syncthreads();
            if (t < half) lane[t] = lane[t] + lane[t + half];
        }
        if (t == 0) r->sum[segment] = lane[0];
    }
    if (!bins) return;
    bin.clear();
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < SEGMENT / 256; j++)
        if (v[j] > -INFINITY) bin.add(key_of(v[j]) >> 21, d.topP > 0 ? units_of(v[j], largest, d.temperature) : 0);
    __syncthreads();
    for (int i = t; i < BINS; i += 256)
        if (bin.count[i]) {
            atomicAdd(&r->count[i], bin.count[i]);
            if (d.topP > 0) atomicAdd((unsigned long long*)&r->mass[i], (unsigned long long)bin.mass(i));
        }
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

// Noise is evaluated where it could win only: every thread starts from the score of the largest logit, which no filter drops.
KERNEL(256) sample_draw(Row* rows, const float* logits, const Draw* draws, int vocab) {
    start();
    __shared__ Best part[8];
    int segment = blockIdx.x, t = threadIdx.x;
    Row* r = rows + blockIdx.y;
    const float* x = logits + (size_t)blockIdx.y * vocab;
    Draw d = draws[blockIdx.y];
    if (d.temperature == 0) return;
    uint64_t first = first_of(r, gridDim.x);
    if (fault_of(first)) return;
    float largest = x[token_of(first)];
    bool cut = d.topK > 0 || d.topP > 0;
    uint32_t cutKey = r->cutKey;
    int cutToken = r->cutToken;
    double temperature = d.temperature, minP = d.minP;
    if (t == 0) {
        uint4 w = noise_words(d.seed, d.position, token_of(first) / 4);
        uint32_t word[4] = {w.x, w.y, w.z, w.w};
        part[0] = {(double)largest / temperature + gumbel(word[token_of(first) % 4]), token_of(first)};
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
            uint32_t key = key_of(v[j]);
            if (cut && (key < cutKey || key == cutKey && 4 * group + j > cutToken)) continue;
            if (minP > 0 && exp64(weight_exponent(v[j], largest, d.temperature)) < minP) continue;
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

KERNEL(32) sample_finish(Answer* answers, const Row* rows, const float* logits, const Draw* draws, int vocab, int segments) {
    start();
    const Row* r = rows + blockIdx.x;
    const float* x = logits + (size_t)blockIdx.x * vocab;
    Answer* a = answers + blockIdx.x;
    Draw d = draws[blockIdx.x];
    uint64_t first = first_of(r, segments);
    int token = token_of(first), fault = fault_of(first);
    float logProb = 0;
    if (!fault) {
        if (d.given >= 0) token = d.given;
        else if (d.temperature > 0) {
            Best best = {r->score[0], r->token[0]};
            for (int i = threadIdx.x; i < segments; i += 32) best.take(r->score[i], r->token[i]);
            best.reduce();
            token = best.token;
        }
        if (d.logProb && threadIdx.x == 0)
            logProb = (float)(((double)x[token] - (double)x[token_of(first)]) - log_sum(r, segments));
    }
    if (threadIdx.x == 0) a->token = token, a->logProb = logProb, a->fault = fault;
}
