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

extern __shared__ __align__(1024) uint8_t stages_[]; // dynamic: the stages, one after another
__shared__ uint64_t full_[MOST_STAGES], empty_[MOST_STAGES];

// ring_init is one thread's; a __syncthreads must follow.
__device__ __forceinline__ void ring_init(int stages, int users) {
    for (int i = 0; i < stages; i++) barrier_init(full_ + i, 2), barrier_init(empty_ + i, users);
    barriers_ready();
}

struct Ring {
    int bytes, stages; // of a stage; of the ring
    int stage, parity;

    __device__ __forceinline__ uint8_t* at() const { return stages_ + stage * bytes; }
    __device__ __forceinline__ uint64_t* full() const { return full_ + stage; }
    __device__ __forceinline__ void wait_empty() const { barrier_wait(empty_ + stage, parity); }
    __device__ __forceinline__ void wait_full() const { barrier_wait(full_ + stage, parity); }
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, parity ^= 1;
    }
    // release is a using warp's: it has read the stage.
    __device__ __forceinline__ void release(int lane) {
        __syncwarp();
        if (lane == 0) barrier_arrive(empty_ + stage);
        next();
    }
};
