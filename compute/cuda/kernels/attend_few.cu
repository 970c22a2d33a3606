// attend_few_DIM_FORMAT: attention of tiles of 16 (row, head) pairs: attend_few.cuh says how.
//
// Launch   grid (kvHeads*ceil(group/16), works), block 192, shared the ring's bytes. Formula: compute.Ops.Attention.
// Targets  sm_90a
#include "attend_few.cuh"

constexpr int USERS = 4;

// Room is the bytes of a block's ring, and the blocks of a multiprocessor: pages of wide heads want all of it.
template <int D>
struct Room {
    static constexpr int blocks = D > 256 ? 1 : 2, ring = (192 << 10) / blocks;
};

template <int D, class F>
__device__ void attend_few(const Attention& a) {
    constexpr int RING = Room<D>::ring, TILE = F::tile(D), STAGES = RING / TILE < MOST_STAGES ? RING / TILE : MOST_STAGES; // TILE: of a page's keys
    __shared__ FewScratch<D> scratch;
    launch_next();
    Work k = load_work(a.work + blockIdx.y);
    if (k.rows == 0) return;
    if (threadIdx.x == 0) ring_init(0, STAGES, 2, USERS);
    __syncthreads();
    int w = threadIdx.x / 32;
    Ring ring{TILE, STAGES, 0, w >= USERS};
    if (w >= USERS) {
        bool fresh = w > USERS, waited = false;
        bring_pages<D, F>(ring, a, k, blockIdx.x, [&](int p) {
            if ((p >= k.fresh) != fresh) return false;
            if (fresh && !waited) wait_for_earlier(), copies_see_writes(), waited = true;
            return true;
        });
        return;
    }
    wait_for_earlier();
    attend_pages<D, USERS, F>(ring, a, k, blockIdx.x, scratch, Given{a.q}, threadIdx.x);
}

#define ATTEND_FEW(D, name, F)                                                                                                              \
    extern "C" __global__ void __launch_bounds__(32 * USERS + 64, Room<D>::blocks)                                                                      \
        attend_few_##D##_##name(half* out, const float* q, uint8_t* kv, const int2* order, const int* tables, const Work* work,       \
                                float* partials, int* arrivals, int stride, int layers, int layer, int kvHeads, int group, int tile,        \
                                float c, int window, float bend, const float* sinks) {                                                      \
        attend_few<D, F>({out, q, kv, order, tables, work, partials, arrivals, stride, layers, layer, kvHeads, group, tile, c, window, bend, \
                          sinks, (int)gridDim.x});                                                                                            \
    }
EACH_WIDTH(ATTEND_FEW) EACH_FORMAT(ATTEND_FEW, 512)
