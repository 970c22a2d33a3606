package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2 is AVX2 with F16C: eight outputs to a register. Its instruction multiplies unsigned bytes by signed ones and adds
// neighbours to int16, which must not saturate; sums of int16 are widened to int32 before they can overflow.
type avx2 struct {
	low, fifth, pair, sign Mem // 0x0f, 0x10, 0x30, 0x80 in every byte
	ones                   Mem // 1 in every int16
	spread, bit            Mem // of 32 bits: the byte that holds bit i, and that bit in it
}

func (*avx2) name() string           { return "AVX2" }
func (*avx2) tiles() []int           { return []int{4, 2, 1} }
func (*avx2) floatTiles() []int      { return []int{2, 1} }
func (*avx2) lanes() int             { return 8 }
func (*avx2) vector() reg.VecVirtual { return YMM() }
func (*avx2) begin(format)           {}

// columns: few rows leave registers for both halves of the outputs.
func (*avx2) columns(rows int) int {
	if rows <= 2 {
		return 2
	}
	return 1
}

func (s *avx2) constants() {
	words := func(name string, w ...uint64) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range 4 {
			DATA(8*i, U64(w[i%len(w)]))
		}
		return m
	}
	s.low = words("low", 0x0f0f0f0f0f0f0f0f)
	s.fifth = words("fifth", 0x1010101010101010)
	s.pair = words("pair", 0x3030303030303030)
	s.sign = words("sign", 0x8080808080808080)
	s.ones = words("ones", 0x0001000100010001)
	s.spread = words("spread", 0x0000000000000000, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303)
	s.bit = words("bit", 0x8040201008040201)
}

func (s *avx2) load(m Mem) Op {
	v := YMM()
	VBROADCASTSS(m, v)
	return v
}

func (*avx2) multiply(a Op, b, to reg.VecVirtual) { VMULPS(a, b, to) }

// run is how many vectors' products int16 can sum, |w|*127*2*run < 2^15, and registers can hold.
func (*avx2) run(f format) int { return map[int]int{4: 8, 5: 4, 6: 1, 8: 1}[f.bits] }

func (s *avx2) sums(k *kernel) tile {
	f := k.format
	if f.halves() {
		return s.halves(k)
	}
	sum, run := k.tile(), s.run(f)
	signed := f.bits == 8 // the zero point is taken away from the weights
	if f.zero() >= 0 && !signed {
		for r := range sum {
			for _, i := range sum[r] {
				VPBROADCASTD(k.panel(panelNeg, r), i)
				VPSLLD(Imm(uint64(f.zero())), i, i)
			}
		}
	}
	for from := 0; from < 8; from += run {
		fresh := from == 0 && (f.zero() < 0 || signed)
		s.products(k, from, from+run, func(r, c int, p reg.VecVirtual) {
			if fresh {
				VPMADDWD(s.ones, p, sum[r][c])
				return
			}
			VPMADDWD(s.ones, p, p)
			VPADDD(p, sum[r][c], sum[r][c])
		})
	}
	return sum
}

// halves sums a block with a scale for each half. The step from int16 to int32 multiplies by it.
func (s *avx2) halves(k *kernel) tile {
	sum, zero := k.tile(), Imm(uint64(k.format.zero()))
	for c := range k.columns { // zero * (lo*scale0 + (all-lo)*scale1) = lo * (zero*(scale0-scale1)) + all * (zero*scale1)
		lo, all := YMM(), YMM()
		VPMOVSXBD(k.weight(k.w, 0, perByte, c), lo)
		VPMOVSXBD(k.weight(k.w, group, perByte, c), all)
		VPSUBD(all, lo, lo)
		VPSLLD(zero, lo, lo)
		VPSLLD(zero, all, all)
		for r := range sum {
			x := YMM()
			VPBROADCASTD(k.panel(panelNegLo, r), x)
			VPMULLD(lo, x, sum[r][c])
			VPBROADCASTD(k.panel(panelNeg, r), x)
			VPMULLD(all, x, x)
			VPADDD(x, sum[r][c], sum[r][c])
		}
	}
	run := s.run(k.format)
	for h := range 2 {
		scale := make([]reg.VecVirtual, k.columns)
		for c := range scale { // in both int16 of each lane
			scale[c] = YMM()
			high := YMM()
			VPMOVSXBD(k.weight(k.w, group*h, perByte, c), scale[c])
			VPSLLD(Imm(16), scale[c], high)
			VPBLENDW(Imm(0xaa), high, scale[c], scale[c])
		}
		for from := 4 * h; from < 4*h+4; from += run {
			s.products(k, from, from+run, func(r, c int, p reg.VecVirtual) {
				VPMADDWD(scale[c], p, p)
				VPADDD(p, sum[r][c], sum[r][c])
			})
		}
	}
	return sum
}

// products sums the products of vectors [from, to) in int16, and uses each sum at once.
func (s *avx2) products(k *kernel, from, to int, use func(r, c int, p reg.VecVirtual)) {
	sum := k.tile()
	for v := from; v < to; v++ {
		w := make([]reg.VecVirtual, k.columns)
		for c := range w {
			w[c] = s.unpack(k, v, c)
		}
		for r := range sum {
			x := YMM()
			VPBROADCASTD(k.activations(r, v), x)
			for c := range w {
				p := sum[r][c]
				if v > from {
					p = YMM()
				}
				if k.format.bits == 8 {
					s.signedProducts(x, w[c], p)
				} else {
					VPMADDUBSW(x, w[c], p)
				}
				if v > from {
					VPADDW(p, sum[r][c], sum[r][c])
				}
				if v == to-1 {
					use(r, c, sum[r][c])
				}
			}
		}
	}
}

// signedProducts multiplies signed weights: their magnitudes, at most 128, by activations with their signs.
func (s *avx2) signedProducts(x, w, to reg.VecVirtual) {
	magnitude := YMM()
	VPSIGNB(w, x, to)
	VPABSB(w, magnitude)
	VPMADDUBSW(to, magnitude, to)
}

// unpack is vector v of the weights' integers, a byte each: unsigned, but signed where they have 8 bits.
func (s *avx2) unpack(k *kernel, v, c int) reg.VecVirtual {
	w := YMM()
	if k.format.bits == 8 {
		VMOVDQU(k.ints(0, v, c), w)
		VPXOR(s.sign, w, w)
		return w
	}
	if v < 4 {
		VMOVDQU(k.ints(0, v, c), w)
	} else {
		VMOVDQU(k.ints(0, v-4, c), w)
		VPSRLW(Imm(4), w, w)
	}
	VPAND(s.low, w, w)
	high := YMM()
	switch k.format.bits {
	case 5:
		VPBROADCASTD(k.weight(k.w, k.format.ints()+nibBytes+8*v, perBits, c), high)
		VPSHUFB(s.spread, high, high)
		VPAND(s.bit, high, high)
		VPCMPEQB(s.bit, high, high)
		VPAND(s.fifth, high, high)
		VPOR(high, w, w)
	case 6:
		VMOVDQU(k.ints(nibBytes, v%2, c), high)
		switch up := 4 - v/2*2; {
		case up > 0:
			VPSLLW(Imm(uint64(up)), high, high)
		case up < 0:
			VPSRLW(Imm(uint64(-up)), high, high)
		}
		VPAND(s.pair, high, high)
		VPOR(high, w, w)
	}
	return w
}
