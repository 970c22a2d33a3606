package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx2 is AVX2 with F16C: eight outputs to a register. Its instruction multiplies unsigned bytes by signed ones and adds
// neighbours to int16, which must not saturate; sums of int16 are widened to int32 before they can overflow.
type avx2 struct {
	memory map[string]Mem // the constants
	fixed  map[string]Op  // those of them that have a register in the kernel being written
}

// The constants, in the order in which they deserve a register.
var avx2Constants = []struct {
	name  string
	bits  []int // of the formats that use it
	words [4]uint64
}{
	{"bit", []int{5}, every(0x8040201008040201)}, // bit i of 32, in the byte where spread puts the byte that holds it
	{"spread", []int{5}, [4]uint64{0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303}},
	{"low", []int{4, 5, 6}, every(0x0f0f0f0f0f0f0f0f)},
	{"fifth", []int{5}, every(0x1010101010101010)},
	{"pair", []int{6}, every(0x3030303030303030)},
	{"sign", []int{8}, every(0x8080808080808080)},
	{"ones", []int{4, 5, 8}, every(0x0001000100010001)}, // int16
}

func every(w uint64) [4]uint64 { return [4]uint64{w, w, w, w} }

func (*avx2) name() string           { return "AVX2" }
func (*avx2) floatTiles() []int      { return []int{2, 1} }
func (*avx2) lanes() int             { return 8 }
func (*avx2) vector() reg.VecVirtual { return YMM() }

// tiles: three rows are what two drafts make of one.
func (*avx2) tiles(f format) []int {
	if f.name == "Q8" {
		return []int{4, 3, 2, 1}
	}
	return []int{4, 2, 1}
}

// columns: few rows leave registers for both halves of the outputs.
func (*avx2) columns(f format, rows int) int {
	if rows == 1 || rows == 2 && f.bits != 5 {
		return 2
	}
	return 1
}

func (*avx2) floatColumns(rows int) int {
	if rows == 1 {
		return 2
	}
	return 1
}

func (s *avx2) constants() {
	s.memory = map[string]Mem{}
	for _, c := range avx2Constants {
		s.memory[c.name] = GLOBL(c.name, RODATA|NOPTR)
		for i, w := range c.words {
			DATA(8*i, U64(w))
		}
	}
}

// begin gives constants the registers that the tiles leave.
func (s *avx2) begin(f format, rows int) {
	tiles := 2 // accumulators and sums
	if run := s.run(f); run > 1 && (run < 8 || f.zero() >= 0) {
		tiles = 3 // sums of int16 beside those of int32
	}
	perColumn := 1 // weights
	if f.halves {
		perColumn++ // and their scales
	}
	if f.bits == 8 {
		perColumn++ // and their magnitudes
	}
	columns := s.columns(f, rows)
	free := 16 - (tiles*rows+perColumn)*columns - 2 // values on their way
	s.fixed = map[string]Op{}
	for _, c := range avx2Constants {
		if free > 0 && slices.Contains(c.bits, f.bits) {
			v := YMM()
			VMOVDQU(s.memory[c.name], v)
			s.fixed[c.name] = v
			free--
		}
	}
}

// constant is an operand.
func (s *avx2) constant(name string) Op {
	if v, ok := s.fixed[name]; ok {
		return v
	}
	return s.memory[name]
}

func (s *avx2) load(m Mem) Op {
	v := YMM()
	VBROADCASTSS(m, v)
	return v
}

func (*avx2) multiply(a Op, b, to reg.VecVirtual) { VMULPS(a, b, to) }

// run is how many vectors' products int16 can sum, |w|*127*2*run < 2^15, and registers can hold.
func (*avx2) run(f format) int {
	if f.halves {
		return 1
	}
	return map[int]int{4: 8, 5: 4, 8: 1}[f.bits]
}

func (s *avx2) sums(k *kernel) tile {
	f := k.format
	if f.halves {
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
				VPMADDWD(s.constant("ones"), p, sum[r][c])
				return
			}
			VPMADDWD(s.constant("ones"), p, p)
			VPADDD(p, sum[r][c], sum[r][c])
		})
	}
	return sum
}

// halves sums a block with a scale for each half. The step from int16 to int32 multiplies by it.
func (s *avx2) halves(k *kernel) tile {
	sum := k.tile()
	signed := k.format.bits == 8 // the zero point is taken away from the weights
	fresh := k.format.zero() < 0 || signed
	for c := range k.columns { // zero * (lo*scale0 + (all-lo)*scale1) = lo * (zero*(scale0-scale1)) + all * (zero*scale1)
		if fresh {
			break
		}
		zero := Imm(uint64(k.format.zero()))
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
	for h := range 2 {
		scale := make([]reg.VecVirtual, k.columns)
		for c := range scale { // in both int16 of each lane
			scale[c] = YMM()
			high := YMM()
			VPMOVSXBD(k.weight(k.w, group*h, perByte, c), scale[c])
			VPSLLD(Imm(16), scale[c], high)
			VPBLENDW(Imm(0xaa), high, scale[c], scale[c])
		}
		for v := 4 * h; v < 4*h+4; v++ {
			first := v == 0 && fresh
			s.products(k, v, v+1, func(r, c int, p reg.VecVirtual) {
				if first {
					VPMADDWD(scale[c], p, sum[r][c])
					return
				}
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
		var magnitude []reg.VecVirtual // of signed weights: at most 128. They give the activations their signs
		for c := range w {
			w[c] = s.unpack(k, v, c)
			if k.format.bits == 8 {
				magnitude = append(magnitude, YMM())
				VPABSB(w[c], magnitude[c])
			}
		}
		for r := range sum {
			x := YMM()
			VPBROADCASTD(k.activations(r, v), x)
			for c := range w {
				p := sum[r][c]
				if v > from {
					p = YMM()
				}
				if magnitude == nil {
					VPMADDUBSW(x, w[c], p)
				} else {
					VPSIGNB(w[c], x, p)
					VPMADDUBSW(p, magnitude[c], p)
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

// unpack is vector v of the weights' integers, a byte each: unsigned, but signed where they have 8 bits.
func (s *avx2) unpack(k *kernel, v, c int) reg.VecVirtual {
	w := YMM()
	if k.format.bits == 8 {
		VMOVDQU(k.ints(0, v, c), w)
		VPXOR(s.constant("sign"), w, w)
		return w
	}
	if v < 4 {
		VMOVDQU(k.ints(0, v, c), w)
	} else {
		VMOVDQU(k.ints(0, v-4, c), w)
		VPSRLW(Imm(4), w, w)
	}
	VPAND(s.constant("low"), w, w)
	high := YMM()
	switch k.format.bits {
	case 5:
		VPBROADCASTD(k.weight(k.w, k.format.ints()+nibBytes+8*v, perBits, c), high)
		VPSHUFB(s.constant("spread"), high, high)
		VPAND(s.constant("bit"), high, high)
		VPCMPEQB(s.constant("bit"), high, high)
		VPAND(s.constant("fifth"), high, high)
		VPOR(high, w, w)
	case 6:
		VMOVDQU(k.ints(nibBytes, v%2, c), high)
		switch up := 4 - v/2*2; {
		case up > 0:
			VPSLLW(Imm(uint64(up)), high, high)
		case up < 0:
			VPSRLW(Imm(uint64(-up)), high, high)
		}
		VPAND(s.constant("pair"), high, high)
		VPOR(high, w, w)
	}
	return w
}
