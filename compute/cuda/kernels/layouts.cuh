// Layouts: how packed weights lie in memory. Weights are the A operand of mma.m16n8k16 and wgmma.m64nNk16.
//
// A weight [N, K] is tiles of 64 outputs x 64 k; a tile is four strips of 16 outputs:
//
//       K →   tile 0   tile 1   ...          a strip:  codes | high bits | scales          (each a multiple of 16 bytes)
//   64 rows  ┌────────┬────────┬─ ─          lane 4*g + q of the warp that multiplies it owns, of each k16 step ks, the
//            └────────┴────────┴─ ─          eight codes of its fragment: a[i] holds k = 16*ks + 2q + 8*(i/2) and k + 1
//   64 rows  ┌────────┬────────┬─ ─          of row g + 8*(i%2) of the strip
//
// The tiles of 64 outputs lie one run after another along K, a run being RUN tiles (the last one what is left): of strip 0, then of
// strip 1 .. So a warp that multiplies a strip reads kilobytes at a time, as memory likes it.
//
// A value is code*s + m, with s and m in f16 for each group of 32 (Q6: 16) k of a row, rounded once to f16. Codes lie in the lowest bits of f16,
// where they are numbers already: code * 2^-24, or code * 2^-20 four bits higher up. So s is kept times as much, and one instruction dequantises two
// values. Where codes are signed, they are kept more by their centre, and m is -centre*s. Each row is scaled by a power of two, 2^e, so that
// such an s is a number of f16: its largest value lies in [2^(peak-1), 2^peak), and what is small is a multiple of 2^-24, which errs by 2^-18 of
// the largest at most; where f16 is kept as it is, in [2^14, 2^15), where a bf16 weight fits exactly. The matmul's result is multiplied by
// 2^-e, which rounds nothing.
#pragma once
#include "common.cuh"

__device__ __forceinline__ uint32_t prmt(uint32_t a, uint32_t b, uint32_t s) {
    uint32_t r;
    asm("prmt.b32 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "r"(s));
    return r;
}
__device__ __forceinline__ half2 as_half2(uint32_t u) { return *(half2*)&u; }
__device__ __forceinline__ uint32_t as_bits(half2 h) { return *(uint32_t*)&h; }

constexpr int RUN = 4;

// PIECE is how many tiles of a run are brought at a time.
template <class L> constexpr int PIECE = L::strip < 2048 ? RUN : RUN / 2;

// strip_at is where a strip, 0 to 3, of tile kt lies behind the beginning of its 64 outputs.
template <class L>
__device__ __forceinline__ size_t strip_at(int strip, int kt, int ktiles) {
    int run = kt / RUN * RUN;
    return (size_t)run * L::bytes + (strip * min(RUN, ktiles - run) + kt - run) * L::strip;
}

// Coded is a layout of BITS-bit codes. What a lane has of an a[i] lies where the code of its row is a number: rows g (i even) at bit 0, rows g+8,
// but of 8 bits, at bit 4.
//
//   codes   8 bits: [2][32][16 bytes]: a lane's words 2*ks, 2*ks+1 are row g (k 2q, 2q+1, 2q+8, 2q+9), then row g+8
//           4, 5:   [32][16 bytes]: a lane's word ks; bits 4i..4i+3 and 16+4i..: the low four bits of a[i]'s two codes
//           6 bits: [32][16 bytes], then [32][8 bytes]: of two ks three words. In each half of a word a code in bits 0..5 and one in 6..11: of
//                   a[0] and a[1], a[2] and a[3], and of the second ks a[0] and a[1]. Its a[2] and a[3] are in what is left: the low four bits in
//                   the first word and the last, the upper two in bits 12, 13 and 14, 15 of the second
//   high    5 bits: [32] words, turned right by fifth_turn(ks, i) the fifth bits of a[i] where they belong
//   scales  [64/GROUP][8 g]: s of rows g and g+8; with minima m of both after them
template <int BITS, bool AFFINE, int GROUP_>
struct Coded {
    static constexpr int GROUP = GROUP_, GROUPS = 64 / GROUP;
    static constexpr bool affine = AFFINE;
    static constexpr int centre = AFFINE ? 0 : 1 << (BITS - 1);
    static constexpr int top = AFFINE ? (1 << BITS) - 1 : centre; // the largest |code - centre|
    static constexpr int bits = BITS;
    static constexpr int codes = BITS == 8 ? 1024 : 512; // of a strip
    static constexpr int high = BITS == 5 ? 128 : BITS == 6 ? 256 : 0;
    static constexpr int entry = AFFINE ? 8 : 4;
    static constexpr int strip = codes + high + GROUPS * 8 * entry, bytes = 4 * strip;
    static constexpr int peak = BITS - !AFFINE - 9; // so that s as it is kept is below 2^16

    // unit is what a code's lowest bit is as f16 where it lies, in row g and in row g + 8; s is kept divided by it.
    static constexpr __host__ __device__ float unit(bool second) { return BITS == 8 || !second ? 0x1p-24f : 0x1p-20f; }
    // fifth_turn is how far a word of fifth bits is turned right for those of a[i] of step ks.
    static constexpr __host__ __device__ int fifth_turn(int ks, int i) { return 2 * ks + i / 2 + (ks < 2 ? 0 : 4); }

    uint4 lo, hi; // hi: the other 16 codes of 8 bits, or the high bits
    const uint8_t* scale;

    // Loads a lane's codes of a strip.
    __device__ __forceinline__ Coded(const uint8_t* at, int lane) {
        lo = *(const uint4*)(at + 16 * lane);
        if constexpr (BITS == 8) hi = *(const uint4*)(at + 512 + 16 * lane);
        if constexpr (BITS == 5) hi.x = *(const uint32_t*)(at + codes + 4 * lane);
        if constexpr (BITS == 6) *(uint2*)&hi = *(const uint2*)(at + codes + 8 * lane);
        scale = at + codes + high + lane / 4 * entry;
    }

    // number is a[i]'s two codes of k16 step ks, as f16 where they lie.
    __device__ __forceinline__ uint32_t number(int ks, int i) const {
        const uint32_t l[4] = {lo.x, lo.y, lo.z, lo.w}, h[4] = {hi.x, hi.y, hi.z, hi.w};
        if constexpr (BITS == 8) return prmt(ks < 2 ? l[2 * ks + i % 2] : h[2 * (ks - 2) + i % 2], 0, i < 2 ? 0x4140 : 0x4342);
        if constexpr (BITS == 6) {
            const uint32_t first = ks < 2 ? l[0] : l[3], second = ks < 2 ? l[1] : h[0], third = ks < 2 ? l[2] : h[1];
            const uint32_t w = ks % 2 == 0 ? i < 2 ? first : second : third;
            if (ks % 2 == 0 || i < 2) return i % 2 == 0 ? w & 0x003f003fu : w >> 2 & 0x03f003f0u;
            if (i == 2) return first >> 12 & 0x000f000fu | second >> 8 & 0x00300030u;
            return third >> 8 & 0x00f000f0u | second >> 6 & 0x03000300u;
        }
        uint32_t w = (i < 2 ? l[ks] : l[ks] >> 8) & (i % 2 == 0 ? 0x000f000fu : 0x00f000f0u);
        if constexpr (BITS == 5) w |= __funnelshift_r(h[0], h[0], fifth_turn(ks, i)) & (i % 2 == 0 ? 0x00100010u : 0x01000100u);
        return w;
    }

    // fragment dequantises k16 step ks; ks is a constant after unrolling.
    __device__ __forceinline__ void fragment(int ks, uint32_t (&a)[4]) const {
        const uint8_t* e = scale + ks * 16 / GROUP * 8 * entry;
        half2 s, m;
        if constexpr (AFFINE) {
            uint2 both = *(const uint2*)e;
            s = as_half2(both.x), m = as_half2(both.y);
        } else {
            s = *(const half2*)e, m = __hmul2(s, __floats2half2_rn(-centre * unit(false), -centre * unit(true)));
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = as_bits(i % 2 == 0 ? __hfma2(as_half2(number(ks, i)), __low2half2(s), __low2half2(m)) : __hfma2(as_half2(number(ks, i)), __high2half2(s), __high2half2(m)));
    }
};

using Q8 = Coded<8, false, 32>;
using Q4 = Coded<4, false, 32>;
using Q4M = Coded<4, true, 32>;
using Q5 = Coded<5, false, 32>;
using Q5M = Coded<5, true, 32>;
using Q6 = Coded<6, false, 16>;

// Half is values in f16: a strip is [4 k16 steps][32][16 bytes], a[0..3] of a lane.
struct Half {
    static constexpr int strip = 2048, bytes = 4 * strip;
    const uint4* at;
    __device__ __forceinline__ Half(const uint8_t* strip, int lane) { at = (const uint4*)strip + lane; }
    __device__ __forceinline__ void fragment(int ks, uint32_t (&a)[4]) const {
        uint4 v = at[32 * ks];
        a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    }
};

// One macro call a layout: X(name, type). A new layout is a line here and in layouts of pack.go.
#define EACH_LAYOUT(X) X(q8, Q8) X(q4, Q4) X(q4m, Q4M) X(q5, Q5) X(q5m, Q5M) X(q6, Q6) X(f16, Half)
