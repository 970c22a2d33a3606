// route: each row chooses experts by its router's products; sort_routes: the rows of each expert together, and work for its matmuls.
//
// Order    the CPU class's, from the products on (compute/cpu/router.go): exponentials by exp_, sums over all experts by lanes
//          (e modulo 32), ascending, then a butterfly; sums over the chosen ones by falling key. A row of which a key is NaN takes
//          experts 0, 1 and so on at weights of NaN.
// Needs    experts <= 1024. Formula: compute.Routing.
#include "router.cuh"

// Launch   grid ceil(rows/4), block 128: a warp a row; shared 4*12*n bytes. bias (of the products), choice and scales may be null.
KERNEL(128) route(int* experts, float* weights, const float* products, const float* bias, const float* choice, const float* scales, int n, int chosen, int rows,
                  int sigmoid, int normalise, float scale, int groups, int kept) {
    start();
    extern __shared__ float room[];
    int warp = threadIdx.x / 32, row = blockIdx.x * 4 + warp;
    if (row >= rows) return;
    const Router r{products, bias, choice, scales, n, chosen, sigmoid != 0, normalise != 0, scale, groups, kept, false};
    r.route(experts + (size_t)row * chosen, weights + (size_t)row * chosen, row, room + warp * 3 * n, threadIdx.x % 32);
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
