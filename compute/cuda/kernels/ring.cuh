// A ring of stages in shared memory: some warps of a block bring, others use.
//
//   full    of a stage: every bringing warp has arrived, with the bytes that they announced
//   empty   of a stage: every using warp has arrived
//
// Each side walks through the stages in the same order and keeps its place in a Ring of its own. Who brings begins with
// parity 1: an empty barrier that nobody has used yet counts as passed.
#pragma once
#include "bulk.cuh"

#ifndef MOST_STAGES
#define MOST_STAGES 16 // of all rings of a block
#endif

extern __shared__ __align__(1024) uint8_t stages_[]; // dynamic: the stages, one after another
__shared__ uint64_t full_[MOST_STAGES], empty_[MOST_STAGES];

// ring_init prepares stages from the given one on. One thread's; a __syncthreads must follow.
__device__ __forceinline__ void ring_init(int first, int stages, int bringers, int users) {
    for (int i = first; i < first + stages; i++) barrier_init(full_ + i, bringers), barrier_init(empty_ + i, users);
    barriers_ready();
}

// Quiet is while one thread of a block tells others what the block has written. Its fence waits for copies that are on their way as well, so a
// program's bringing warps begin none meanwhile.
__shared__ volatile int quiet_;
struct Quiet {
    __device__ __forceinline__ Quiet() { quiet_ = 1; }
    __device__ __forceinline__ ~Quiet() { quiet_ = 0; }
};

struct Ring {
    int bytes, stages; // of a stage; of the ring
    int stage, parity;
    int first = 0, start = 0; // the number of its first stage in the block, and where it begins

    __device__ __forceinline__ uint8_t* at() const { return stages_ + start + stage * bytes; }
    __device__ __forceinline__ uint64_t* full() const { return full_ + first + stage; }
    __device__ __forceinline__ void wait_empty() const { barrier_wait(empty_ + first + stage, parity); }
    __device__ __forceinline__ bool is_empty() const { return barrier_passed(empty_ + first + stage, parity); }
    __device__ __forceinline__ bool is_full() const { return barrier_passed(full_ + first + stage, parity); }
    __device__ __forceinline__ void wait_full() const { barrier_wait(full_ + first + stage, parity); }
    __device__ __forceinline__ void next() {
        if (++stage == stages) stage = 0, parity ^= 1;
    }
    // release is a using warp's: it has read the stage.
    __device__ __forceinline__ void release(int lane) {
        __syncwarp();
        if (lane == 0) barrier_arrive(empty_ + first + stage);
        next();
    }
};

// Way is a using warp's way through a ring, by addresses that are worked out once.
struct Way {
    const uint8_t* at;   // the stage
    uint32_t full;       // its barrier
    int emptied;         // and from there to the other
    int left, parity;    // stages up to the ring's end
    int bytes, stages;

    __device__ __forceinline__ explicit Way(const Ring& r) : at(r.at()), left(r.stages - r.stage), parity(r.parity), bytes(r.bytes), stages(r.stages) {
        full = shared_address(r.full()), emptied = shared_address(empty_) - shared_address(full_);
        asm volatile("" : "+r"(full), "+r"(emptied)); // lest they are worked out again
    }
    __device__ __forceinline__ void end(Ring& r) const { r.stage = stages - left, r.parity = parity; }
    __device__ __forceinline__ void wait() const { barrier_wait(full, parity); }
    __device__ __forceinline__ void release() const { barrier_arrive(full + emptied); } // one lane, when all have read
    __device__ __forceinline__ void next() {
        at += bytes, full += 8;
        if (--left == 0) at -= stages * bytes, full -= 8 * stages, left = stages, parity ^= 1;
    }
};
