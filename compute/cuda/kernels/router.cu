// route: each row chooses experts by its router's products; sort_routes: the rows of each expert together, and work for its matmuls.
//
// Order    the CPU class's, from the products on (compute/cpu/router.go): exponentials by exp_, sums over all experts by lanes
//          (e modulo 32), ascending, then a butterfly; sums over the chosen ones by falling key. A row of which a key is NaN takes
//          experts 0, 1 and so on at weights of NaN.
// Needs    experts <= 1024. Formula: compute.Routing.
#include "common.cuh"

// best gives every lane the index of the largest key, of equal ones the lowest; NaN stands for nothing. -1: nothing is left.
__device__ int best(const float* key, int n, int lane) {
    int at = -1;
    float top = 0;
    for (int e = lane; e < n; e += 32) {
        float k = key[e];
        if (k == k && (at < 0 || k > top)) at = e, top = k;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        int other = __shfl_xor_sync(~0u, at, step);
        float k = __shfl_xor_sync(~0u, top, step);
        if (other >= 0 && (at < 0 || k > top || (k == top && other < at))) at = other, top = k;
    }
    return at;
}

// scores makes softmax (of all) or sigmoid of the products.
__device__ void scores(float* v, int n, bool sigmoid, int lane) {
    if (sigmoid) {
        for (int e = lane; e < n; e += 32) v[e] = __fdiv_rn(1.f, __fadd_rn(1.f, exp_(-v[e])));
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

// drop_groups takes the experts of all groups but the best away. sums is room for one value a group.
__device__ void drop_groups(float* key, float* sums, int n, int groups, int kept, int lane) {
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
    uint32_t keep[32] = {};
    for (int i = 0; i < kept; i++) {
        int g = best(sums, groups, lane);
        if (g < 0) break;
        __syncwarp();
        if (lane == 0) sums[g] = __int_as_float(0x7fc00000);
        keep[g / 32] |= 1u << g % 32;
        __syncwarp();
    }
    for (int e = lane; e < n; e += 32)
        if (!(keep[e / size / 32] >> e / size % 32 & 1)) key[e] = __int_as_float(0x7fc00000);
    __syncwarp();
}

// Launch   grid ceil(rows/4), block 128: a warp a row; shared 4*12*n bytes. bias (of the products), choice and scales may be null.
KERNEL(128) route(int* experts, float* weights, const float* products, const float* bias, const float* choice, const float* scales, int n, int chosen, int rows,
                  int sigmoid, int normalise, float scale, int groups, int kept) {
    start();
    extern __shared__ float room[];
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) return;
    float *v = room + threadIdx.x / 32 * 3 * n, *key = v + n, *sums = key + n;
    for (int e = lane; e < n; e += 32) {
        float l = products[(size_t)row * n + e];
        v[e] = key[e] = bias ? __fadd_rn(l, bias[e]) : l;
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
    experts += (size_t)row * chosen, weights += (size_t)row * chosen;
    if (__any_sync(~0u, nan)) {
        for (int j = lane; j < chosen; j += 32) experts[j] = j, weights[j] = __int_as_float(0x7fc00000);
        return;
    }
    if (groups > 0) drop_groups(key, sums, n, groups, kept, lane);
    float sum = 0, peak = 0;
    bool exponents = normalise && !by_score && !sigmoid;
    for (int j = 0; j < chosen; j++) { // key[j] is free once expert j has been looked at; what has been chosen goes to sums
        int e = best(key, n, lane);
        float w = e < 0 ? __int_as_float(0x7fc00000) : v[e]; // nothing left: a fault of the model's numbers
        e = max(e, 0);
        if (j == 0) peak = w;
        if (exponents) w = exp_(__fsub_rn(w, peak));
        sum = __fadd_rn(sum, w);
        __syncwarp();
        if (lane == 0) key[e] = __int_as_float(0x7fc00000), experts[j] = e, sums[j] = w;
        __syncwarp();
    }
    if (sigmoid) sum = fmaxf(sum, 1e-20f);
    for (int j = lane; j < chosen; j += 32) {
        float w = sums[j];
        if (normalise) w = __fdiv_rn(w, sum);
        if (scale != 0) w = __fmul_rn(w, scale);
        if (scales) w = __fmul_rn(w, scales[experts[j]]);
        weights[j] = w;
    }
}

// sort_routes: place[row*chosen + j] is where row's j-th expert has it, from[place] the row; experts ascending. work[0].x is the number of
// pieces of work that follow: (expert, first place, places), at most `tile` places each.
//
// The order within an expert is nobody's business: products of a row do not depend on its company.
//
// Launch   grid 1, block 1024.
KERNEL(1024) sort_routes(int4* work, int* place, int* from, const int* experts, int pairs, int chosen, int n, int tile) {
    start();
    __shared__ int count[1024], next[1024], places[1024], pieces[1024];
    int t = threadIdx.x;
    count[t] = 0;
    __syncthreads();
    for (int p = t; p < pairs; p += 1024) atomicAdd(&count[experts[p]], 1);
    __syncthreads();
    int own = count[t], parts = (own + tile - 1) / tile;
    places[t] = own, pieces[t] = parts;
    __syncthreads();
    for (int step = 1; step < 1024; step *= 2) { // sums up to and with t
        int a = t >= step ? places[t - step] : 0, b = t >= step ? pieces[t - step] : 0;
        __syncthreads();
        places[t] += a, pieces[t] += b;
        __syncthreads();
    }
    int first = places[t] - own;
    next[t] = first;
    if (t < n)
        for (int i = 0; i < parts; i++) work[1 + pieces[t] - parts + i] = make_int4(t, first + i * tile, min(tile, own - i * tile), 0);
    if (t == 1023) work[0] = make_int4(pieces[t], 0, 0, 0);
    __syncthreads();
    for (int p = t; p < pairs; p += 1024) {
        int at = atomicAdd(&next[experts[p]], 1);
        place[p] = at, from[at] = p / chosen;
    }
}
