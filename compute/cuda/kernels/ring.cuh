// A ring of stages in shared memory: two warps bring, all others of the block use.
//
//   full    of a stage: both bringing warps have arrived, with the bytes that they announced
//   empty   of a stage: every using warp has arrived
//
// Each side walks through the stages in the same order and keeps its place in a Ring of its own. Who brings begins with
// parity 1: an empty barrier that nobody has used yet counts as passed.
#pragma once
#include "bulk.cuh"

constexpr int MOST_STAGES = 16;

struct Barriers {
    uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    // One thread; a __syncthreads must follow.
    __device__ void init(int stages, int users) {
        for (int i = 0; i < stages; i++) barrier_init(full + i, 2), barrier_init(empty + i, users);
        barriers_ready();
    }
};

struct Ring {
    uint8_t* smem;
    Barriers* barriers;
    int bytes, stages; // of a stage; of the ring
    int stage, parity;

    __device__ __forceinline__ uint8_t* at() const { return smem + stage * bytes; }
    __device__ __forceinline__ uint64_t* full() const { return barriers->full + stage; }
    __device__ __forceinline__ void wait_empty() const { barrier_wait(barriers->empty + stage, parity); }
    __device__ __forceinline__ void wait_full() const { barrier_wait(barriers->full + stage, parity); }
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, parity ^= 1;
    }
    // release is a using warp's: it has read the stage.
    __device__ __forceinline__ void release(int lane) {
        __syncwarp();
        if (lane == 0) barrier_arrive(barriers->empty + stage);
        next();
    }
};
