// The layouts of experts: those of all weights, and MX4, codes of four bits that are floats.
#pragma once
#include "layouts.cuh"

// MX4 is MXFP4: a tile like Q4's, of e2m1 codes (sign, two bits of exponent, one of mantissa), and f16 scales of 32. A code's bits, where
// f16 has its lowest bits of exponent and its highest of mantissa, are its value times 2^-14, the subnormal one as well: scales are kept 2^14 times.
struct MX4 : Coded<4, false, 32> {
    using Coded<4, false, 32>::Coded;
    __device__ __forceinline__ void fragment(int ks, uint32_t (&a)[4]) const {
        half2 s = *(const half2*)(scale + ks * 16 / GROUP * 8 * entry);
        const uint32_t l[4] = {lo.x, lo.y, lo.z, lo.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t w = l[ks] >> (4 * i);
            a[i] = as_bits(__hmul2(as_half2((w & 0x00070007u) << 9 | (w & 0x00080008u) << 12), i % 2 ? __high2half2(s) : __low2half2(s)));
        }
    }
};

#define EACH_EXPERTS_LAYOUT(X) EACH_LAYOUT(X) X(mx4, MX4)
