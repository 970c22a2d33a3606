// A row's key and value into their page: append.cu states the rounding.
#pragma once
#include "pages.cuh"

// What stores a value for each format: put writes number i of 16 along k, `at` bytes into a tile.
struct PutF16 {
    using Format = F16;
    static __device__ void put(uint8_t* tile, int dim, int n, int count, int k, float x, float, bool finite, bool key) {
        ((half*)tile)[(k / 8 * count + n) * 8 + k % 8] = finite ? __float2half_rn(x) : __ushort_as_half(key ? 0x7fff : 0);
    }
    static constexpr bool scaled = false;
    static __device__ float scale(float) { return 1; }
    static __device__ void put_scale(uint8_t*, int, int, int, float, bool, bool) {}
};

struct PutQ8_0 {
    using Format = Q8_0;
    static constexpr bool scaled = true;
    static __device__ float scale(float most) { // of 32 values
        half s = __float2half_ru(__fdiv_rn(most, 127));
        if (__hisinf(__float2half_rn(__fmul_rn(__half2float(s), 127)))) s = __float2half_rz(__fdiv_rn(most, 127));
        return __half2float(s);
    }
    static __device__ void put(uint8_t* tile, int dim, int n, int count, int k, float x, float scale, bool finite, bool) {
        float code = scale > 0 && finite ? fminf(127, fmaxf(-127, rintf(__fdiv_rn(x, scale)))) : 0;
        tile[(k / 16 * count + n) * 16 + place(k % 16)] = (uint8_t)((int)code + 128);
    }
    static __device__ void put_scale(uint8_t* tile, int dim, int d, int pos, float scale, bool finite, bool key) {
        *(half*)(tile + PAGE * dim + (d / 32 * PAGE + pos) * 2) = finite ? __float2half_rn(scale) : __ushort_as_half(key ? 0x7fff : 0);
    }
};

struct PutE4M3 {
    using Format = E4M3;
    static constexpr bool scaled = false;
    static __device__ float scale(float) { return 1; }
    static __device__ void put_scale(uint8_t*, int, int, int, float, bool, bool) {}
    static __device__ uint8_t code(float x) {
        uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80, a = bits & 0x7fffffff;
        float m = __uint_as_float(a);
        if (m >= 448) return sign | 0x7e;
        if (m < 0.015625f) return sign | (int)rintf(__fmul_rn(m, 512)); // a multiple of 2^-9
        a += 0x7ffff + (a >> 20 & 1);
        return sign | ((a >> 20) - (120 << 3));
    }
    static __device__ void put(uint8_t* tile, int dim, int n, int count, int k, float x, float, bool finite, bool key) {
        tile[(k / 16 * count + n) * 16 + place(k % 16)] = finite ? code(x) : key ? 0x7f : 0;
    }
};

// append_tiles is one head of a row into the tiles of a page, its key at k and its value at v, by a warp.
template <class P>
__device__ __forceinline__ void append_tiles(uint8_t* keys, uint8_t* values, const float* k, const float* v, int at, int dim, int lane) {
    bool finite = true;
    for (int d = lane; d < dim; d += 32)
        finite &= !__hisinf(__float2half_rn(k[d])) && !__hisinf(__float2half_rn(v[d])) && k[d] == k[d] && v[d] == v[d];
    finite = __all_sync(~0u, finite);
    for (int d0 = 0; d0 < dim; d0 += 32) { // a block of q8_0
        int d = d0 + lane;
        float x = d < dim ? k[d] : 0, y = d < dim ? v[d] : 0, sx = 1, sy = 1;
        if (P::scaled) {
            float mx = fabsf(x), my = fabsf(y);
            for (int step = 16; step > 0; step /= 2) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, step)), my = fmaxf(my, __shfl_xor_sync(~0u, my, step));
            sx = P::scale(mx), sy = P::scale(my);
        }
        if (d >= dim) continue;
        P::put(keys, dim, at, PAGE, d, x, sx, finite, true);
        P::put(values, dim, d, dim, at, y, sy, finite, false);
        if (lane == 0) P::put_scale(keys, dim, d, at, sx, finite, true), P::put_scale(values, dim, d, at, sy, finite, false);
    }
}

// append_head finds them.
template <class P>
__device__ __forceinline__ void append_head(uint8_t* kv, const float* k, const float* v, int page, int pos, int layers, int layer, int dim, int head, int heads, int lane) {
    uint8_t* keys = kv + page_at<typename P::Format>(page, layers, layer, heads, head, dim);
    append_tiles<P>(keys, keys + P::Format::tile(dim), k, v, pos % PAGE, dim, lane);
}
