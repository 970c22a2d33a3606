// delta_few_128: the causal convolution and the gated delta rule where sequences have few rows each, as when many are decoded, with the bits of
// delta_convolve and delta_rule_128. delta_few.cuh draws a work; a block is one.
//
// A work is a chain of few things that wait for each other, so what matters is how many are on their way, and how soon memory is asked. No
// kernel makes a chunk's entry, which says where its pages are: so S and keys come to the L2 cache while the kernel before this one ends.
//
// Order    delta.cu's.
// Needs    dim 128, up to FEW_ROWS rows a chunk. `rows` is what a step sends of them (delta.cuh).
// Launch   grid (value heads, rows of the step), block 256. Of y, chunks come first, then rows without a sequence, which give zeros, then nothing:
//          so the grid, and with it the list of launches, follows the number of rows alone.
// Targets  sm_90a
#include "delta_few.cuh"
#include "thread.cuh"

extern "C" __global__ void __launch_bounds__(256, 4)
    delta_few_128(float* spare, int grouped, float* out, const float* x, const float* w, const float* beta, const float* alpha, const float* a, const float* dt,
                  uint8_t* memory, const int* rows, int layers, int layer, int keyHeads, int valueHeads, int taps, float eps) {
    __shared__ DeltaScratch scratch;
    __shared__ ChunkEntry entry;
    launch_next();
    const uint64_t args[20] = {(uint64_t)spare, (uint64_t)grouped, (uint64_t)out, (uint64_t)x, (uint64_t)w, (uint64_t)beta, (uint64_t)alpha, (uint64_t)a, (uint64_t)dt,
                               (uint64_t)memory, (uint64_t)rows, 0, 0, (uint64_t)layers, (uint64_t)layer, (uint64_t)keyHeads, (uint64_t)valueHeads, 0, (uint64_t)taps,
                               __float_as_uint(eps)};
    const DeltaStep d{args, 0};
    if (threadIdx.x < 2) ((int4*)&entry)[threadIdx.x] = ((const int4*)(d.chunks() + blockIdx.y))[threadIdx.x];
    __syncthreads();
    if (entry.at < 0) return; // there is always a block that waits for the kernel before, and so ends after it
    const Chunk chunk(d.order(gridDim.y), entry);
    const DeltaWork k(d, 1, blockIdx.y * gridDim.x + blockIdx.x);
    if (threadIdx.x == 0 && chunk.rows > 0 && chunk.position > 0) prefetch_state(d, k, entry);
    wait_for_earlier();
    if (chunk.rows == 0) { // a row without a sequence
        if (threadIdx.x < STATE) out[((size_t)*chunk.order * valueHeads + k.head) * STATE + threadIdx.x] = 0;
        return;
    }
#pragma unroll 1
    for (int i = 0; i < chunk.rows; i += 8 - (chunk.position + i) % 8) { // groups
        if ((chunk.position + i) % PAGE == 0) DeltaBlock(d, scratch, k, chunk, thread()).open(i);
        DeltaBlock(d, scratch, k, chunk, thread()).gather(i);
        DeltaBlock(d, scratch, k, chunk, thread()).compute(i);
    }
}
