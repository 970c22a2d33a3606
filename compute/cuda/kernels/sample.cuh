// What sampling computes with: the logarithm, the exponential and the noise of package sample, bit for bit, and its order of
// candidates. Every double operation is rounded on its own (-fmad=false), in the order that sample/math.go writes.
#pragma once
#include "common.cuh"

// Draw is what is asked of a row; drawInput in sample.go. A row may be asked twice: once adjusted, for its token, and once as it was, for
// probabilities.
struct Draw {
    uint64_t seed;
    int64_t position;
    float temperature; // of noise and of filtered probabilities; 0: of the first candidate alone
    float repeat;      // of adjustments
    float sigmas, typical, topP, minP, threshold;
    int topK;
    int adjustments, adjustment; // how many, and the index of the first
    int token;                   // GREEDY, DRAWN, CHOSEN or what is given
    int top;                     // how many of the likeliest are wanted
    uint8_t asked;               // whether anything is: otherwise every kernel passes the row by
    uint8_t logProb;             // whether the token's log-probability is wanted
    uint8_t filtered;            // whether log-probabilities are of what the filters leave
    uint8_t weigh;               // what sample_weigh makes: SUMS, COUNTS, MASSES, DEVIATIONS
    float binned;                // the temperature of MASSES
    uint8_t filters, cold;       // how many; how many of them come before the temperature
    uint8_t filter[6];           // sample.Filter, in order
};
constexpr int GREEDY = -1, DRAWN = -2, CHOSEN = -3; // the first candidate; by noise; by the row's other asking
constexpr int SUMS = 1, COUNTS = 2, MASSES = 4, DEVIATIONS = 8;
enum Filter : uint8_t { TEMPERATURE = 1, TOP_N_SIGMA, TOP_K, TYPICAL, TOP_P, MIN_P, XTC };

// Adjustment is of a token's logit: adjustment in sample.go.
struct Adjustment {
    uint32_t token; // the last 31 bits; the first says whether the repeat penalty counts
    float add;
};

// Answer is what comes back of a row: answer in sample.go.
struct Answer {
    int token;
    float logProb;
    int fault; // sample.Fault
    int top;   // how many of the likeliest there are
};

struct Likely {
    int token;
    float logProb;
};

constexpr int SEGMENT = 4096, MAX_SEGMENTS = 256, BINS = 2048;

// Row is what the kernels of a draw tell each other of a row.
struct Row {
    uint64_t mass[BINS]; // of the candidates whose keys begin with these 11 bits, in units of 2^-44
    uint32_t count[BINS];
    uint64_t first, last;           // candidates: what the filters leave lies between
    uint64_t best[MAX_SEGMENTS];    // by segment: the first candidate
    double sum[MAX_SEGMENTS];       // by segment: of weights
    double deviation[MAX_SEGMENTS]; // by segment: of logit-largest above -Inf
    double square[MAX_SEGMENTS];    // by segment: of its square
    int finite[MAX_SEGMENTS];       // by segment: how many are above -Inf
    double score[MAX_SEGMENTS];     // by segment: the largest logit/temperature + noise
    int token[MAX_SEGMENTS];        // and whose it is
};

static_assert(sizeof(Draw) == 80 && sizeof(Adjustment) == 8 && sizeof(Answer) == 16 && sizeof(Likely) == 8 && sizeof(Row) == 36880, "as in sample.go");

// A key orders logits: larger is larger, -0 is 0, NaN is above +Inf.
constexpr uint32_t KEY_NAN = 0xffffffff, KEY_INF = 0xff800000, KEY_BANNED = 0x007fffff;

__device__ __forceinline__ uint32_t key_of(float x) {
    if (x != x) return KEY_NAN;
    uint32_t u = __float_as_uint(__fadd_rn(x, 0.f));
    return u >> 31 ? ~u : u | 0x80000000;
}
__device__ __forceinline__ float logit_of(uint32_t key) { return __uint_as_float(key >> 31 ? key & 0x7fffffff : ~key); }

// A candidate is a key and a token as one number: the first in the order of candidates is the largest.
__device__ __forceinline__ uint64_t candidate(uint32_t key, int token) { return (uint64_t)key << 32 | ~(uint32_t)token; }
__device__ __forceinline__ uint32_t key_of(uint64_t c) { return c >> 32; }
__device__ __forceinline__ int token_of(uint64_t c) { return ~(uint32_t)c; }
constexpr uint64_t EVERYTHING = (uint64_t)KEY_BANNED + 1 << 32; // all candidates lie from it on

// first_of is a row's first candidate, from those of its segments; every lane of the warp gets it.
__device__ __forceinline__ uint64_t first_of(const Row* r, int segments) {
    uint64_t best = 0;
    for (int i = threadIdx.x % 32; i < segments; i += 32) best = max(best, r->best[i]);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
    return best;
}

__device__ __forceinline__ int fault_of(uint64_t first) {
    uint32_t key = key_of(first);
    return key == KEY_NAN ? 1 : key == KEY_INF ? 2 : key <= KEY_BANNED ? 3 : 0;
}

// Run is a run of the order of candidates.
struct Run {
    uint64_t first, last;
    __device__ bool has(uint64_t c) const { return c <= first && c >= last; }
};

// left_of is what the filters leave of a row whose first candidate is `first`.
__device__ __forceinline__ Run left_of(const Draw& d, const Row* r, uint64_t first) {
    return d.filters ? Run{r->first, r->last} : Run{first, EVERYTHING};
}

__device__ const double ROOTS[64] = { // 2^(j/64)
    0x1.0000000000000p+0, 0x1.02c9a3e778061p+0, 0x1.059b0d3158574p+0, 0x1.0874518759bc8p+0,
    0x1.0b5586cf9890fp+0, 0x1.0e3ec32d3d1a2p+0, 0x1.11301d0125b51p+0, 0x1.1429aaea92de0p+0,
    0x1.172b83c7d517bp+0, 0x1.1a35beb6fcb75p+0, 0x1.1d4873168b9aap+0, 0x1.2063b88628cd6p+0,
    0x1.2387a6e756238p+0, 0x1.26b4565e27cddp+0, 0x1.29e9df51fdee1p+0, 0x1.2d285a6e4030bp+0,
    0x1.306fe0a31b715p+0, 0x1.33c08b26416ffp+0, 0x1.371a7373aa9cbp+0, 0x1.3a7db34e59ff7p+0,
    0x1.3dea64c123422p+0, 0x1.4160a21f72e2ap+0, 0x1.44e086061892dp+0, 0x1.486a2b5c13cd0p+0,
    0x1.4bfdad5362a27p+0, 0x1.4f9b2769d2ca7p+0, 0x1.5342b569d4f82p+0, 0x1.56f4736b527dap+0,
    0x1.5ab07dd485429p+0, 0x1.5e76f15ad2148p+0, 0x1.6247eb03a5585p+0, 0x1.6623882552225p+0,
    0x1.6a09e667f3bcdp+0, 0x1.6dfb23c651a2fp+0, 0x1.71f75e8ec5f74p+0, 0x1.75feb564267c9p+0,
    0x1.7a11473eb0187p+0, 0x1.7e2f336cf4e62p+0, 0x1.82589994cce13p+0, 0x1.868d99b4492edp+0,
    0x1.8ace5422aa0dbp+0, 0x1.8f1ae99157736p+0, 0x1.93737b0cdc5e5p+0, 0x1.97d829fde4e50p+0,
    0x1.9c49182a3f090p+0, 0x1.a0c667b5de565p+0, 0x1.a5503b23e255dp+0, 0x1.a9e6b5579fdbfp+0,
    0x1.ae89f995ad3adp+0, 0x1.b33a2b84f15fbp+0, 0x1.b7f76f2fb5e47p+0, 0x1.bcc1e904bc1d2p+0,
    0x1.c199bdd85529cp+0, 0x1.c67f12e57d14bp+0, 0x1.cb720dcef9069p+0, 0x1.d072d4a07897cp+0,
    0x1.d5818dcfba487p+0, 0x1.da9e603db3285p+0, 0x1.dfc97337b9b5fp+0, 0x1.e502ee78b3ff6p+0,
    0x1.ea4afa2a490dap+0, 0x1.efa1bee615a27p+0, 0x1.f50765b6e4540p+0, 0x1.fa7c1819e90d8p+0,
};
constexpr double LN2_HI = 0x1.62e42fep-1, LN2_LO = 0x1.f473de6af278fp-30;

// exp64 is sample.exp, of x <= 0.
__device__ inline double exp64(double x) {
    if (x < -708) return 0;
    int n = (int)(x * 0x1.71547652b82fep+6 - 0.5);
    double nf = n;
    double r = (x - nf * (LN2_HI / 64)) - nf * (LN2_LO / 64);
    double p = 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r;
    double root = ROOTS[n & 63];
    return (root + root * p) * __longlong_as_double((int64_t)(1023 + (n >> 6)) << 52);
}

// log64 is sample.log, of a normal x > 0.
__device__ inline double log64(double x) {
    int64_t bits = __double_as_longlong(x);
    int k = (int)(bits >> 52) - 1023;
    double m = __longlong_as_double((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    if (m >= 0x1.6a09e667f3bcdp+0) m = m / 2, k++;
    double f = m - 1;
    double s = f / (2 + f);
    double z = s * s;
    double p = 2.0 / 23;
    p = p * z + 2.0 / 21;
    p = p * z + 2.0 / 19;
    p = p * z + 2.0 / 17;
    p = p * z + 2.0 / 15;
    p = p * z + 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    double rest = s * (f - z * p);
    double kf = k;
    return kf * LN2_HI + (f - (rest - kf * LN2_LO));
}

// log_sum is the logarithm of a row's sum, segments ascending.
__device__ inline double log_sum(const Row* r, int segments) {
    double sum = 0;
    for (int i = 0; i < segments; i++) sum = sum + r->sum[i];
    return log64(sum);
}

// exponent is that of a logit's weight, relative to the largest.
__device__ __forceinline__ double exponent(float x, float largest, float temperature) {
    return ((double)x - (double)largest) / (double)temperature;
}

// units_of is a weight in units of 2^-44, rounded down.
__device__ __forceinline__ uint64_t units_of(float x, float largest, float temperature) {
    double e = exponent(x, largest, temperature);
    return e < -31 ? 0 : __double2ull_rz(exp64(e) * 0x1p44);
}

// noise_words are the random words of tokens 4*group to 4*group+3: Philox4x32-10.
__device__ inline uint4 noise_words(uint64_t seed, int64_t position, uint32_t group) {
    uint32_t c0 = group, c1 = (uint32_t)position, c2 = (uint64_t)position >> 32, c3 = 0, k0 = (uint32_t)seed, k1 = seed >> 32;
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)0xD2511F53 * c0, b = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0, c1 = (uint32_t)b, c2 = (uint32_t)(a >> 32) ^ c3 ^ k1, c3 = (uint32_t)a;
        k0 += 0x9E3779B9, k1 += 0xBB67AE85;
    }
    return make_uint4(c0, c1, c2, c3);
}

// gumbel is a standard Gumbel variate of a random word; it is below GUMBEL_MAX, and below gumbel_bound, which needs no logarithm.
constexpr double GUMBEL_MAX = 22.88;
__device__ inline double gumbel(uint32_t v) {
    double w = ((double)v + 0.5) * 0x1p-32;
    return -log64(-log64(1 - w));
}
__device__ __forceinline__ double gumbel_bound(uint32_t v) { return 0.6932 * (double)(__clz(v) + 1); }

// Histogram is counts and masses in shared memory. A mass is kept in words of a few of its 44 bits, because 32-bit integers are
// what shared memory adds by itself: 3 words hold 2^17 candidates a bin, 4 words 2^21.
template <int WORDS>
struct Histogram {
    static constexpr int BITS = (44 + WORDS - 1) / WORDS;
    uint32_t count[BINS], word[WORDS][BINS];

    __device__ void clear() {
        for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
            count[i] = 0;
#pragma unroll
            for (int w = 0; w < WORDS; w++) word[w][i] = 0;
        }
    }
    __device__ void add(int bin, uint64_t units) { // the largest weight, 2^44, is one more than 44 bits: its last word has room
        atomicAdd(&count[bin], 1);
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            uint32_t part = (uint32_t)(units >> w * BITS) & (w < WORDS - 1 ? (1u << BITS) - 1 : ~0u);
            if (part) atomicAdd(&word[w][bin], part);
        }
    }
    __device__ uint64_t mass(int bin) const {
        uint64_t sum = 0;
#pragma unroll
        for (int w = 0; w < WORDS; w++) sum += (uint64_t)word[w][bin] << w * BITS;
        return sum;
    }
};
