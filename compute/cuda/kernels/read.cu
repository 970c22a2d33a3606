// read: reads memory as fast as it goes, for the floor beside a benchmark's rates.
//
// Launch   any grid, block 512. Reads n blocks of 16 bytes once; *sum changes only if they are all ones, so the compiler must read.
#include "common.cuh"

KERNEL(512) read(uint32_t* sum, const uint4* data, long long n) {
    start();
    uint32_t bits = ~0u;
    long long step = (long long)gridDim.x * 512, i = (long long)blockIdx.x * 512 + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        uint4 v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = __ldcs(data + i + j * step);
#pragma unroll
        for (int j = 0; j < 4; j++) bits &= v[j].x & v[j].y & v[j].z & v[j].w;
    }
    for (; i < n; i += step) {
        uint4 v = data[i];
        bits &= v.x & v.y & v.z & v.w;
    }
    if (bits == ~0u) *sum = bits;
}
