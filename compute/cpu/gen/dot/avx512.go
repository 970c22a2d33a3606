package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// avx512 is AVX-512 (F, BW, DQ, VL) with VNNI: sixteen outputs to a register, and an instruction that multiplies four
// unsigned bytes a lane by four signed ones and adds the products to the lane's int32.
type avx512 struct {
	low, fifth, pair reg.VecVirtual // 0x0f, 0x10, 0x30 in every byte
}

func (*avx512) name() string            { return "AVX512" }
func (*avx512) tiles(format) []int      { return []int{8, 6, 5, 4, 3, 2, 1} }
func (*avx512) floatTiles() []int       { return []int{4, 2, 1} }
func (*avx512) lanes() int              { return 16 }
func (*avx512) columns(format, int) int { return 1 }
func (*avx512) floatColumns(int) int    { return 1 }
func (*avx512) vector() reg.VecVirtual  { return ZMM() }
func (*avx512) constants()              {}
func (*avx512) load(m Mem) Op           { return m }

func (*avx512) multiply(a Op, b, to reg.VecVirtual) { VMULPS_BCST(a, b, to) }

func (s *avx512) begin(f format, _ int) {
	s.low, s.fifth, s.pair = nil, nil, nil
	fill := func(b uint32) reg.VecVirtual {
		n, v := GP32(), ZMM()
		MOVL(U32(b*0x01010101), n)
		VPBROADCASTD(n, v)
		return v
	}
	if f.bits < 8 {
		s.low = fill(0x0f)
	}
	switch f.bits {
	case 5:
		s.fifth = fill(0x10)
	case 6:
		s.pair = fill(0x30)
	}
}

func (s *avx512) sums(k *kernel) tile {
	f := k.format
	if f.halves {
		return s.halves(k)
	}
	sum := k.tile()
	for r := range sum {
		if f.zero() < 0 {
			VPXORD(sum[r][0], sum[r][0], sum[r][0])
		} else {
			VPSLLD_BCST(Imm(uint64(f.zero())), k.panel(panelNeg, r), sum[r][0])
		}
	}
	s.dot(k, sum, 0, 8)
	return sum
}

// halves sums each half of a block, then both times their scales.
func (s *avx512) halves(k *kernel) tile {
	lo, hi := k.tile(), k.tile()
	for r := range lo {
		if k.format.zero() < 0 {
			VPXORD(lo[r][0], lo[r][0], lo[r][0])
			VPXORD(hi[r][0], hi[r][0], hi[r][0])
			continue
		}
		zero := Imm(uint64(k.format.zero()))
		VPSLLD_BCST(zero, k.panel(panelNegLo, r), lo[r][0])
		VPSLLD_BCST(zero, k.panel(panelNeg, r), hi[r][0])
		VPSUBD(lo[r][0], hi[r][0], hi[r][0])
	}
	s.dot(k, lo, 0, 4)
	s.dot(k, hi, 4, 8)
	for h, sum := range []tile{lo, hi} {
		scale := ZMM()
		VPMOVSXBD(k.weight(k.w, group*h, perByte, 0), scale)
		for r := range sum {
			VPMULLD(scale, sum[r][0], sum[r][0])
		}
	}
	for r := range lo {
		VPADDD(hi[r][0], lo[r][0], lo[r][0])
	}
	return lo
}

// dot adds the products of vectors [from, to) to the sums.
func (s *avx512) dot(k *kernel, sum tile, from, to int) {
	for v := from; v < to; v++ {
		w := s.unpack(k, v)
		for r := range sum {
			vpdpbusd(k.activations(r, v), w, sum[r][0])
		}
	}
}

// unpack is vector v of the weights' integers, a byte each.
func (s *avx512) unpack(k *kernel, v int) reg.VecVirtual {
	w := ZMM()
	if k.format.bits == 8 {
		VMOVDQU32(k.ints(0, v, 0), w)
		return w
	}
	if v < 4 {
		VPANDD(k.ints(0, v, 0), s.low, w)
	} else {
		VPSRLW(Imm(4), k.ints(0, v-4, 0), w)
		VPANDD(s.low, w, w)
	}
	switch k.format.bits {
	case 5:
		bits := K()
		KMOVQ(k.weight(k.w, k.format.ints()+nibBytes+8*v, perBits, 0), bits)
		VPADDB(s.fifth, w, bits, w)
	case 6:
		pairs, or := k.ints(nibBytes, v%2, 0), Imm(0xf8) // w | pairs & 0x30
		switch up := 4 - v/2*2; {
		case up == 0:
			VPTERNLOGD(or, pairs, s.pair, w)
			return w
		default:
			p := ZMM()
			if up > 0 {
				VPSLLW(Imm(uint64(up)), pairs, p)
			} else {
				VPSRLW(Imm(uint64(-up)), pairs, p)
			}
			VPTERNLOGD(or, p, s.pair, w)
		}
	}
	return w
}

// vpdpbusd adds to each lane of sum the products of w's four unsigned bytes with x's four signed ones, x a 32-bit value in
// memory that all lanes take. avo does not know the instruction.
func vpdpbusd(x Mem, w, sum reg.VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode: "VPDPBUSD", Suffixes: []string{"BCST"},
		Operands: []Op{x, w, sum}, Inputs: []Op{x, w, sum}, Outputs: []Op{sum},
		ISA: []string{"AVX512VNNI"},
	})
}
