// A row's choice of experts, by a warp: router.cu states the order.
#pragma once
#include "common.cuh"
#include "mail.cuh"
#include "opened.cuh"

// rank_of orders keys: the larger the higher, zeros alike, 0 for NaN, which stands for nothing.
__device__ __forceinline__ uint32_t rank_of(float key) {
    uint32_t bits = __float_as_uint(__fadd_rn(key, 0.f));
    return key != key ? 0 : bits >> 31 ? ~bits : bits | 1u << 31;
}

// Ranks are the ranks of keys that a lane has: those of the first 32*HELD in registers, for a choice looks at all of them for each expert.
struct Ranks {
    static constexpr int HELD = 8;
    uint32_t held[HELD];

    __device__ __forceinline__ Ranks(const float* key, int n, int lane) {
#pragma unroll
        for (int i = 0; i < HELD; i++) held[i] = lane + 32 * i < n ? rank_of(key[lane + 32 * i]) : 0;
    }
    // best gives every lane the index of the largest key, of equal ones the lowest. -1: nothing is left.
    __device__ __forceinline__ int best(const float* key, int n, int lane) const {
        uint32_t at = ~0u, top = 0;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (held[i] > top) at = lane + 32 * i, top = held[i];
        for (int e = lane + 32 * HELD; e < n; e += 32) {
            uint32_t rank = rank_of(key[e]);
            if (rank > top) at = e, top = rank;
        }
        uint32_t most = __reduce_max_sync(~0u, top);
        return most == 0 ? -1 : (int)__reduce_min_sync(~0u, top == most ? at : ~0u);
    }
    // drop takes a key away; key is written by its lane, which alone reads it.
    __device__ __forceinline__ void drop(float* key, int e, int lane) {
        if (e % 32 != lane) return;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (e == lane + 32 * i) held[i] = 0;
        if (e >= 32 * HELD) key[e] = __int_as_float(0x7fc00000);
    }
};

// scores makes softmax (of all) or sigmoid of the products.
__device__ __forceinline__ void scores(float* v, int n, bool sigmoid, int lane) {
    if (sigmoid) {
        for (int e = lane; e < n; e += 32) v[e] = opened(1.f, v[e]);
        return;
    }
    float peak = v[0], sum = 0;
    for (int e = lane; e < n; e += 32) peak = fmaxf(peak, v[e]);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, step));
    for (int e = lane; e < n; e += 32) {
        v[e] = exp_(__fsub_rn(v[e], peak));
        sum = __fadd_rn(sum, v[e]);
    }
    sum = warp_sum(sum);
    for (int e = lane; e < n; e += 32) v[e] = __fdiv_rn(v[e], sum);
}

constexpr uint32_t KEPT = 0x7fc00001; // in the place of a group's sum: a NaN that no sum is

// drop_groups takes the experts of all groups but the best away. sums is room for one value a group.
__device__ __forceinline__ void drop_groups(float* key, float* sums, int n, int groups, int kept, int lane) {
    int size = n / groups;
    for (int g = lane; g < groups; g += 32) {
        int first = -1;
        for (int e = 0; e < size; e++)
            if (first < 0 || key[g * size + e] > key[g * size + first]) first = e;
        float second = __int_as_float(0xff800000);
        for (int e = 0; e < size; e++)
            if (e != first) second = fmaxf(second, key[g * size + e]);
        sums[g] = size > 1 ? __fadd_rn(key[g * size + first], second) : key[g * size + first];
    }
    __syncwarp();
    Ranks ranks(sums, groups, lane);
    for (int i = 0; i < kept; i++) {
        int g = ranks.best(sums, groups, lane);
        if (g < 0) break;
        ranks.drop(sums, g, lane);
        if (g % 32 == lane) sums[g] = __uint_as_float(KEPT);
    }
    __syncwarp();
    for (int e = lane; e < n; e += 32)
        if (__float_as_uint(sums[e / size]) != KEPT) key[e] = __int_as_float(0x7fc00000);
    __syncwarp();
}

// Router is how rows choose: the arguments of route.
struct Router {
    const float *products, *bias, *choice, *scales;
    int n, chosen;
    bool sigmoid, normalise;
    float scale;
    int groups, kept;
    bool mail; // products are

    // route gives a row's experts and their weights. `room` is 3*n floats of shared memory; a whole warp calls it.
    __device__ __forceinline__ void route(int* experts, float* weights, int row, float* room, int lane) const {
        float *v = room, *key = v + n, *sums = key + n;
        constexpr int STEPS = 4; // of products that are asked for at once
#pragma unroll 1
        for (int from = lane; from < n; from += 32 * STEPS) {
            float l[STEPS];
            bool missing;
            do {
                missing = false;
#pragma unroll
                for (int i = 0; i < STEPS; i++)
                    if (from + 32 * i < n) l[i] = get_one(products + (size_t)row * n + from + 32 * i), missing |= absent(l[i]);
            } while (mail && missing);
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                if (int e = from + 32 * i; e < n) v[e] = key[e] = bias ? __fadd_rn(l[i], bias[e]) : l[i];
        }
        __syncwarp();
        bool by_score = choice || groups > 0;
        if (by_score || sigmoid || !normalise) scores(v, n, sigmoid, lane);
        bool nan = false;
        for (int e = lane; e < n; e += 32) {
            if (by_score) key[e] = choice ? __fadd_rn(v[e], choice[e]) : v[e];
            nan = nan || key[e] != key[e];
        }
        __syncwarp();
        if (__any_sync(~0u, nan)) {
            for (int j = lane; j < chosen; j += 32) experts[j] = j, weights[j] = __int_as_float(0x7fc00000);
            return;
        }
        if (groups > 0) drop_groups(key, sums, n, groups, kept, lane);
        float sum = 0, peak = 0;
        bool exponents = normalise && !by_score && !sigmoid;
        Ranks ranks(key, n, lane);
        for (int j = 0; j < chosen; j++) { // what has been chosen goes to sums
            int e = ranks.best(key, n, lane);
            float w = e < 0 ? __int_as_float(0x7fc00000) : v[e]; // nothing left: a fault of the model's numbers
            e = max(e, 0);
            if (j == 0) peak = w;
            if (exponents) w = exp_(__fsub_rn(w, peak));
            sum = __fadd_rn(sum, w);
            ranks.drop(key, e, lane);
            if (lane == 0) experts[j] = e, sums[j] = w;
        }
        __syncwarp();
        if (sigmoid) sum = fmaxf(sum, 1e-20f);
        for (int j = lane; j < chosen; j += 32) {
            float w = sums[j];
            if (normalise) w = __fdiv_rn(w, sum);
            if (scale != 0) w = __fmul_rn(w, scale);
            if (scales) w = __fmul_rn(w, scales[experts[j]]);
            weights[j] = w;
        }
    }
};
