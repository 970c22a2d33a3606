// A delta net in a program: delta_few.cuh's works, as many to a block as there are.
#pragma once
#include "delta_few.cuh"

// NearStep is the part of a step of few rows.
struct NearStep : DeltaStep {
    int rows, sequences;

    __device__ __forceinline__ NearStep(const uint64_t* args, int mail, int rows, int sequences) : DeltaStep{args, mail}, rows(rows), sequences(sequences) {}
    __device__ __forceinline__ int slices(int blocks) const { // of a head
        int works = sequences * i(16);
        return 4 * works <= blocks ? 4 : 2 * works <= blocks ? 2 : 1;
    }
};

// Near is a step's chunks and the order of its rows.
struct Near {
    ChunkEntry chunks[FEW_ROWS];
    int order[FEW_ROWS];
    int made; // 0: not yet

    __device__ __forceinline__ bool is_there() const {
        int v;
        asm volatile("ld.acquire.cta.shared.u32 %0,[%1];" : "=r"(v) : "r"(shared_address(&made)) : "memory");
        return v;
    }
    // bring makes it, once: all delta nets of a program have the same. A whole warp calls it.
    __device__ __forceinline__ void bring(const NearStep& d, int lane) {
        if (made) return;
        if (lane < 2 * d.rows) ((int4*)chunks)[lane] = ((const int4*)d.chunks())[lane];
        if (lane < d.rows) order[lane] = d.order(d.rows)[lane];
        __syncwarp();
        if (lane == 0) asm volatile("st.release.cta.shared.u32 [%0],1;" ::"r"(shared_address(&made)) : "memory");
    }
};

__shared__ Near near_;

// prefetch_delta brings what a block's works read of their pages to the L2 cache, a lane each, if another warp has made `near_`. It never waits.
__device__ __forceinline__ void prefetch_delta(const NearStep& d, int block, int blocks, int lane) {
    int slices = d.slices(blocks), works = near_.is_there() ? d.sequences * d.i(16) * slices : 0;
#pragma unroll 1
    for (int number = block + lane * blocks; number < works; number += 32 * blocks) {
        const DeltaWork k(d, slices, number);
        const ChunkEntry& chunk = near_.chunks[k.sequence];
        if (chunk.position > 0) prefetch_state(d, k, chunk), prefetch_u(d, k, chunk);
    }
}

__device__ __forceinline__ DeltaBlock near_block(const NearStep& d, DeltaScratch& s, int number, int t) {
    const DeltaWork k(d, d.slices(gridDim.x), number);
    return DeltaBlock(d, s, k, Chunk(near_.order, near_.chunks[k.sequence]), t);
}

// Functions of their own, for their registers are not needed at once.
__device__ __noinline__ void open_page(const uint64_t* args, int mail, int rows, int sequences, DeltaScratch& s, int number, int i, int t) {
    near_block({args, mail, rows, sequences}, s, number, t).open(i);
}
__device__ __noinline__ void gather_group(const uint64_t* args, int mail, int rows, int sequences, DeltaScratch& s, int number, int i, int t) {
    near_block({args, mail, rows, sequences}, s, number, t).gather(i);
}
__device__ __noinline__ void compute_group(const uint64_t* args, int mail, int rows, int sequences, DeltaScratch& s, int number, int i, int t) {
    near_block({args, mail, rows, sequences}, s, number, t).compute(i);
}

// delta_few is a block's works, by 256 threads that all call it, and near_ is made. Rows without a sequence give zeros.
__device__ __forceinline__ void delta_few(const NearStep& d, DeltaScratch& s, int block, int blocks, int t) {
    int perSequence = d.slices(blocks) * d.i(16), width = d.i(16) * STATE;
#pragma unroll 1
    for (int number = block; number < d.sequences * perSequence; number += blocks) {
        const ChunkEntry& chunk = near_.chunks[number / perSequence];
        int rows = chunk.rows, position = chunk.position;
#pragma unroll 1
        for (int i = 0; i < rows; i += 8 - (position + i) % 8) { // groups
            if ((position + i) % PAGE == 0) open_page(d.args, d.mail, d.rows, d.sequences, s, number, i, t);
            gather_group(d.args, d.mail, d.rows, d.sequences, s, number, i, t);
            compute_group(d.args, d.mail, d.rows, d.sequences, s, number, i, t);
        }
    }
#pragma unroll 1
    for (int i = d.sequences + block; i < d.rows && near_.chunks[i].at >= 0; i += blocks) {
        float* to = d.out() + (size_t)near_.order[near_.chunks[i].at] * width;
        for (int c = t * 4; c < width; c += 1024) put(to + c, 0, 0, 0, 0);
    }
}
