// pack_FORMAT: weights as they lie in a file -> tiles of their layout (layouts.cuh), for rows [0, rows) of the given source, which
// are rows of one weight from a multiple of 64 on. row_scale_FORMAT goes first and chooses 2^-e of each row.
//
// Needs    src rows of `pitch` bytes, all of K. Rows past `rows` and k past K are packed as zeros.
// Launch   row_scale: grid ceil(rows/4), block 128. pack: grid (tiles along K, tiles along N), block 128.
#include "sources.cuh"

// The exponent: the largest value that a row's codes could have goes to [2^(to-1), 2^to).
__device__ __forceinline__ void write_scale(float* scales, int row, float peak, int to) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, step));
    if (threadIdx.x % 32) return;
    bool odd = peak == 0 || !(peak <= 3e38f); // zeros, or a weight that is no number: leave it as it is
    int e = odd ? 0 : max(-120, min(120, to - 1 - ilogbf(peak)));
    scales[row] = ldexpf(1.f, -e);
}

template <class S>
__device__ void row_scale(float* scales, const uint8_t* src, int rows, int k, int64_t pitch) {
    start();
    using L = typename S::Layout;
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) return;
    float peak = 0;
    for (int g = threadIdx.x % 32; g < k / L::GROUP; g += 32) {
        float s = 0, m = 0;
        S::scale(src + row * pitch + (size_t)(g * L::GROUP / S::values) * S::bytes, g % (S::values / L::GROUP), s, m);
        peak = fmaxf(peak, fmaf(fabsf(s), L::top, fabsf(m)));
    }
    write_scale(scales, row, peak, L::peak);
}

template <class S>
__device__ void row_scale_plain(float* scales, const uint8_t* src, int rows, int k, int64_t pitch) {
    start();
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= rows) return;
    float peak = 0;
    for (int i = threadIdx.x % 32; i < k; i += 32) peak = fmaxf(peak, fabsf(S::value(src + row * pitch + (size_t)i * S::bytes)));
    write_scale(scales, row, peak, 15);
}

// pack_words writes a lane's codes of 8, 4 or 5 bits; of(ks, i, j) are those of a[i].
template <class L, class Of>
__device__ __forceinline__ void pack_words(uint8_t* strip, int lane, Of of) {
    uint32_t high = 0;
#pragma unroll
    for (int ks = 0; ks < 4; ks++) {
        uint32_t word[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint32_t c = of(ks, i, j);
                if constexpr (L::bits == 8) word[i % 2] |= c << (8 * (i / 2 * 2 + j));
                else word[0] |= (c & 15) << (4 * i + 16 * j);
                if constexpr (L::bits == 5) high |= c >> 4 << (16 * j + 4 + i % 2 * 4 + L::fifth_turn(ks, i)) % 32;
            }
        if constexpr (L::bits == 8) *(uint2*)(strip + ks / 2 * 512 + 16 * lane + ks % 2 * 8) = make_uint2(word[0], word[1]);
        else *(uint32_t*)(strip + 16 * lane + 4 * ks) = word[0];
    }
    if constexpr (L::bits == 5) *(uint32_t*)(strip + L::codes + 4 * lane) = high;
}

// pack_six writes codes of 6 bits: 16 bytes, and 8.
template <class Of>
__device__ __forceinline__ void pack_six(uint8_t* most, uint8_t* rest, Of of) {
    uint32_t word[6] = {};
#pragma unroll
    for (int ks = 0; ks < 4; ks++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                uint32_t c = of(ks, i, j), *three = word + ks / 2 * 3;
                if (ks % 2 == 0) three[i / 2] |= c << (16 * j + 6 * (i % 2));
                else if (i < 2) three[2] |= c << (16 * j + 6 * i);
                else three[2 * (i - 2)] |= (c & 15) << (16 * j + 12), three[1] |= c >> 4 << (16 * j + 12 + 2 * (i - 2));
            }
    *(uint4*)most = make_uint4(word[0], word[1], word[2], word[3]);
    *(uint2*)rest = make_uint2(word[4], word[5]);
}

template <class S>
__device__ void pack(uint8_t* dst, const uint8_t* src, const float* scales, int rows, int k, int64_t pitch) {
    start();
    using L = typename S::Layout;
    int kt = blockIdx.x, nt = blockIdx.y, t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    auto strip_of = [&](int n) { return dst + (size_t)nt * gridDim.x * L::bytes + strip_at<L>(n, kt, gridDim.x); };
    uint8_t* strip = strip_of(w);
    int lane = t % 32;
    auto code = [&](int row, int kk) -> uint32_t {
        row += nt * 64, kk += kt * 64;
        if (row >= rows || kk >= k) return L::centre;
        return S::code(src + row * pitch + (size_t)(kk / S::values) * S::bytes, kk % S::values);
    };
    auto of = [&](int ks, int i, int j) { return code(w * 16 + g + i % 2 * 8, ks * 16 + 2 * q + i / 2 * 8 + j); };
    if constexpr (L::bits == 6) pack_six(strip + 16 * lane, strip + L::codes + 8 * lane, of);
    else pack_words<L>(strip, lane, of);
    for (int e = t; e < L::GROUPS * 64; e += 128) {
        int group = e / 64, row = e % 64, kk = kt * 64 + group * L::GROUP, at = nt * 64 + row;
        float s = 0, m = 0;
        if (at < rows && kk < k) {
            S::scale(src + at * pitch + (size_t)(kk / S::values) * S::bytes, kk % S::values / L::GROUP, s, m);
            float up = 1 / scales[at];
            s *= up, m *= up;
        }
        uint8_t* entry = strip_of(row / 16) + L::codes + L::high + (group * 8 + row % 8) * L::entry;
        ((half*)entry)[row % 16 / 8] = __float2half_rn(s / L::unit(row % 16 / 8));
        if constexpr (L::affine) ((half*)entry)[2 + row % 16 / 8] = __float2half_rn(m);
    }
}

template <class S>
__device__ void pack_plain(uint8_t* dst, const uint8_t* src, const float* scales, int rows, int k, int64_t pitch) {
    start();
    int kt = blockIdx.x, nt = blockIdx.y, t = threadIdx.x, w = t / 32, g = t % 32 / 4, q = t % 4;
    uint32_t* strip = (uint32_t*)(dst + (size_t)nt * gridDim.x * Half::bytes + strip_at<Half>(w, kt, gridDim.x));
    for (int ks = 0; ks < 4; ks++)
        for (int i = 0; i < 4; i++) {
            int row = nt * 64 + w * 16 + g + i % 2 * 8;
            float v[2] = {0, 0};
            for (int j = 0; j < 2; j++) {
                int kk = kt * 64 + ks * 16 + 2 * q + i / 2 * 8 + j;
                if (row < rows && kk < k) v[j] = S::value(src + row * pitch + (size_t)kk * S::bytes) * (1 / scales[row]);
            }
            strip[(ks * 32 + t % 32) * 4 + i] = half2_bits(v[0], v[1]);
        }
}

#define CODED(name, S)                                                                                                  \
    KERNEL(128) row_scale_##name(float* scales, const uint8_t* src, int rows, int k, int64_t pitch) {                   \
        row_scale<S>(scales, src, rows, k, pitch);                                                                      \
    }                                                                                                                   \
    KERNEL(128) pack_##name(uint8_t* dst, const uint8_t* src, const float* scales, int rows, int k, int64_t pitch) {    \
        pack<S>(dst, src, scales, rows, k, pitch);                                                                      \
    }
EACH_CODED(CODED)

#define PLAIN(name, S)                                                                                                  \
    KERNEL(128) row_scale_##name(float* scales, const uint8_t* src, int rows, int k, int64_t pitch) {                   \
        row_scale_plain<S>(scales, src, rows, k, pitch);                                                                \
    }                                                                                                                   \
    KERNEL(128) pack_##name(uint8_t* dst, const uint8_t* src, const float* scales, int rows, int k, int64_t pitch) {    \
        pack_plain<S>(dst, src, scales, rows, k, pitch);                                                                \
    }
EACH_PLAIN(PLAIN)
