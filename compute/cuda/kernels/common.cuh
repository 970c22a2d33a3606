// What every kernel needs: names for the launch, the order of kernels in a stream, and the arithmetic of this class.
//
// The build passes -fmad=false: a multiplication and an addition fuse where the source says __fmaf_rn and nowhere else.
#pragma once
#include <cstdint>
#include <cuda_fp16.h>

#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

// Programmatic dependent launch: every kernel begins with start(), before it touches memory that an earlier kernel may
// write or read. What a kernel reads of weights alone may be fetched before.
__device__ __forceinline__ void start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// meet is barrier number ID of N threads, a multiple of 32.
template <int N, int ID = 1> __device__ __forceinline__ void meet() { asm volatile("bar.sync %0,%1;" ::"n"(ID), "n"(N) : "memory"); }

// ex2 is 2^x of attention: the unit's approximation, within 2 ulp, 2^-inf = 0, denormal results flushed.
__device__ __forceinline__ float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

// exp_ is e^x of activations, bit for bit the CPU class's (compute/cpu/exp.go states the polynomial and its error).
__device__ __forceinline__ float exp_(float x) {
    if (x < -87.33f) return 0;
    if (x > 88.37f) return __int_as_float(0x7f800000);
    const float magic = 12582912;
    float n = __fadd_rn(__fmul_rn(x, 1.44269504088896341f), magic) - magic;
    float r = __fsub_rn(x, __fmul_rn(n, 0.693359375f));
    r = __fadd_rn(r, __fmul_rn(n, 2.12194440e-4f));
    float p = __fadd_rn(__fmul_rn(1.9875691500e-4f, r), 1.3981999507e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 8.3334519073e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 4.1665795894e-2f);
    p = __fadd_rn(__fmul_rn(p, r), 1.6666665459e-1f);
    p = __fadd_rn(__fmul_rn(p, r), 5.0000001201e-1f);
    p = __fadd_rn(__fadd_rn(__fmul_rn(p, __fmul_rn(r, r)), r), 1.f);
    if (n != n) return n;
    return __int_as_float(__float_as_int(p) + ((int)n << 23));
}

// warp_sum adds the lanes' values by a butterfly: every lane gets the sum, in one order.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v = __fadd_rn(v, __shfl_xor_sync(~0u, v, step));
    return v;
}

__device__ __forceinline__ uint32_t half2_bits(float a, float b) {
    half2 h = __floats2half2_rn(a, b);
    return *(uint32_t*)&h;
}

// mma is c += a*b for a 16x16 a and a 16x8 b of halves: one link of the chain that wgmma.m64nNk16 continues bit for bit.
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
