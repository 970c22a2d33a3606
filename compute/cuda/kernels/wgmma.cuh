// wgmma: a warpgroup's product of 64 rows, in f32, and its operands in shared memory without swizzle. Hopper alone (sm_90a).
//
// A chain of them over k16 gives the bits of the same chain of mma (common.cuh): memra check proves it on the device at hand.
#pragma once
#include "bulk.cuh"

// operand describes an operand in shared memory: 8x8 tiles (rows of 16 bytes, 128 in all), `kstep` bytes to the next one along k,
// 128 to the next along rows or columns.
__device__ __forceinline__ uint64_t operand(uint32_t address, int kstep) {
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(kstep >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(LEFT) : "memory"); }

// wgmma_N: c = a*b, or c += a*b, for N columns. Thread t of the warpgroup has c of rows 16*(t/32) + t%32/4 (+ 8) and columns
// 8*n + 2*(t%4) (+ 1) in c[4*n], c[4*n+1] (c[4*n+2], c[4*n+3]); a is a fragment of mma, of the warp's 16 rows, or an operand.
#define OUT4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define OUT16(c, i) OUT4(c, i), OUT4(c, i + 4), OUT4(c, i + 8), OUT4(c, i + 12)

__device__ __forceinline__ void wgmma_8(float* c, const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%9,0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {"
        "%0,%1,%2,%3"
        "},{%4,%5,%6,%7},%8,p,1,1,0;}\n"
        : OUT4(c, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

__device__ __forceinline__ void wgmma_16(float* c, const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%13,0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7"
        "},{%8,%9,%10,%11},%12,p,1,1,0;}\n"
        : OUT4(c, 0), OUT4(c, 4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

__device__ __forceinline__ void wgmma_32(float* c, const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%21,0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
        "},{%16,%17,%18,%19},%20,p,1,1,0;}\n"
        : OUT16(c, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

__device__ __forceinline__ void wgmma_64(float* c, const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%37,0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "},{%32,%33,%34,%35},%36,p,1,1,0;}\n"
        : OUT16(c, 0), OUT16(c, 16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

__device__ __forceinline__ void wgmma_128(float* c, const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%69,0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
        "},{%64,%65,%66,%67},%68,p,1,1,0;}\n"
        : OUT16(c, 0), OUT16(c, 16), OUT16(c, 32), OUT16(c, 48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

__device__ __forceinline__ void wgmma_64(float* c, uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p,%34,0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
        "},%32,%33,p,1,1,0,0;}\n"
        : OUT16(c, 0), OUT16(c, 16)
        : "l"(a), "l"(b), "r"((int)add));
}

#undef OUT4
#undef OUT16

// wgmma<N> is the same for N a sum of the widths above; `column` is the address of the operand's first column.
template <int N>
__device__ __forceinline__ void wgmma(float* c, const uint32_t (&a)[4], uint32_t column, int kstep, bool add) {
    uint64_t b = operand(column, kstep);
    if constexpr (N == 8) wgmma_8(c, a, b, add);
    else if constexpr (N == 16) wgmma_16(c, a, b, add);
    else if constexpr (N == 32) wgmma_32(c, a, b, add);
    else if constexpr (N == 64) wgmma_64(c, a, b, add);
    else if constexpr (N == 128) wgmma_128(c, a, b, add);
    else if constexpr (N > 64) wgmma_64(c, a, b, add), wgmma<N - 64>(c + 32, a, column + 64 * 16, kstep, add);
    else static_assert(N == 0, "no sum of widths");
}
