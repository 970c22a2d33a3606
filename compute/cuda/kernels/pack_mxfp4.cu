// pack_mxfp4: MXFP4 as it lies in a file (package quant states it) -> tiles of MX4 (experts_layouts.cuh), as pack.cu packs other formats.
//
// Needs    src rows of `pitch` bytes, all of K, 17 for each 32 values. Rows past `rows` and k past K are packed as zeros.
// Launch   row_scale: grid ceil(rows/4), block 128. pack: grid (tiles along K, tiles along N), block 128.
#include "experts_layouts.cuh"

// exponent_at is the power of two of a block, as GGUF has it: that of the file less 127.
__device__ __forceinline__ int exponent_at(const uint8_t* row, int block) { return (int)row[block * 17] - 127; }

// A row's largest scale becomes 1, and is kept as 2^14.
KERNEL(128) row_scale_mxfp4(float* scales, const uint8_t* src, int rows, int k, int64_t pitch) {
    start();
    int row = blockIdx.x * 4 + threadIdx.x / 32, most = -1000;
    if (row >= rows) return;
    for (int b = threadIdx.x % 32; b < k / 32; b += 32) most = max(most, exponent_at(src + row * pitch, b));
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0) scales[row] = ldexpf(1.f, -max(-120, min(120, -most)));
}

KERNEL(128) pack_mxfp4(uint8_t* dst, const uint8_t* src, const float* scales, int rows, int k, int64_t pitch) {
    start();
    int kt = blockIdx.x, nt = blockIdx.y, t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    auto strip_of = [&](int n) { return dst + (size_t)nt * gridDim.x * MX4::bytes + strip_at<MX4>(n, kt, gridDim.x); };
    auto code = [&](int row, int kk) -> uint32_t {
        row += nt * 64, kk += kt * 64;
        if (row >= rows || kk >= k) return 0;
        const uint8_t* b = src + row * pitch + kk / 32 * 17 + 1;
        int j = kk % 32;
        return j < 16 ? b[j] & 15 : b[j - 16] >> 4;
    };
    for (int ks = 0; ks < 4; ks++) {
        uint32_t word = 0;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 2; j++) word |= code(w * 16 + g + i % 2 * 8, ks * 16 + 2 * q + i / 2 * 8 + j) << (4 * i + 16 * j);
        *(uint32_t*)(strip_of(w) + 16 * (t % 32) + 4 * ks) = word;
    }
    int group = t / 64, row = t % 64, kk = kt * 64 + group * 32, at = nt * 64 + row;
    float s = 0;
    if (at < rows && kk < k) s = ldexpf(1 / scales[at], 14 + exponent_at(src + at * pitch, kk / 32));
    ((half*)(strip_of(row / 16) + MX4::codes + (group * 8 + row % 8) * MX4::entry))[row % 16 / 8] = __float2half_rn(s);
}
