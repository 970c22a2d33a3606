package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sumSquares adds squares in sixteen partial sums, i modulo 16, and folds them: lanes 8 apart, 4, 2, 1.
func (s isa) sumSquares() {
	s.function("sumSquares", "func(x *float32, n int) float32")
	x, n := load("x"), load("n")
	sums, v := s.vecs(16/s.lanes), s.vec()
	for _, sum := range sums {
		s.zero(sum)
	}
	each("loop", n, 16, func() {
		for i, sum := range sums {
			VMOVUPS(at(x, i*s.bytes()), v)
			VMULPS(v, v, v)
			VADDPS(v, sum, sum)
		}
	}, x)
	if len(sums) == 2 {
		VADDPS(sums[1], sums[0], sums[0])
	}
	sum := s.reduce(sums[0], func(a, b reg.VecVirtual) { VADDPS(b, a, a) })
	VMOVSS(sum, place(ReturnIndex(0)))
	end()
}

// largest is the largest of some values. A NaN is not seen by a maximum, but not equal to itself: such lanes are all ones, which are a NaN.
func (s isa) largest() {
	s.function("largest", "func(x *float32, n int) float32")
	x, n := load("x"), load("n")
	tops, odd := s.vecs(16/s.lanes), s.vec()
	for _, top := range tops {
		s.broadcast(math.Float32bits(float32(math.Inf(-1))), top)
	}
	s.zero(odd)
	each("loop", n, 16, func() {
		for i, top := range tops {
			v := s.vec()
			VMOVUPS(at(x, i*s.bytes()), v)
			VMAXPS(v, top, top)
			s.orUnordered(v, odd)
		}
	}, x)
	if len(tops) == 2 {
		VMAXPS(tops[1], tops[0], tops[0])
	}
	top := s.reduce(tops[0], func(a, b reg.VecVirtual) { VMAXPS(b, a, a) })
	bits := s.reduce(odd, func(a, b reg.VecVirtual) { VORPS(b, a, a) })
	VORPS(bits, top, top)
	VMOVSS(top, place(ReturnIndex(0)))
	end()
}

// orUnordered sets lanes of odd to ones where v is NaN.
func (s isa) orUnordered(v, odd reg.VecVirtual) {
	const unordered = 3
	if s.lanes == 16 {
		mask, ones := K(), s.vec()
		VCMPPS(Imm(unordered), v, v, mask)
		VPTERNLOGD_Z(Imm(0xff), ones, ones, mask, ones)
		VPORD(ones, odd, odd)
		return
	}
	lanes := s.vec()
	VCMPPS(Imm(unordered), v, v, lanes)
	VORPS(lanes, odd, odd)
}

func (s isa) scale() {
	s.function("scale", "func(y, x, gain *float32, r float32, n int)")
	y, x, gain, n := load("y"), load("x"), load("gain"), load("n")
	r, v := s.vec(), s.vec()
	VBROADCASTSS(place(Param("r")), r)
	each("loop", n, s.lanes, func() {
		VMULPS(at(x, 0), r, v)
		VMULPS(at(gain, 0), v, v)
		VMOVUPS(v, at(y, 0))
	}, y, x, gain)
	end()
}

func (s isa) add() {
	s.function("add", "func(sum, x, y *float32, n int)")
	sum, x, y, n := load("sum"), load("x"), load("y"), load("n")
	v := s.vec()
	each("loop", n, s.lanes, func() {
		VMOVUPS(at(x, 0), v)
		VADDPS(at(y, 0), v, v)
		VMOVUPS(v, at(sum, 0))
	}, sum, x, y)
	end()
}

// quantizeRow is one row of panel blocks. The fields of the first block come as pointers, so that their places are Go's affair;
// blocks lie `stride` bytes apart.
//
//	peak of 32 magnitudes -> d = peak/127 -> q = round(x*(1/d)) -> the sums of each half of q
func (s isa) quantizeRow() {
	s.function("quantizeRow", "func(q *int8, d, sd *float32, neg, negLo *int32, stride int, x *float32, blocks int)")
	q, d, sd, neg, negLo := load("q"), load("d"), load("sd"), load("neg"), load("negLo")
	stride, x, blocks := load("stride"), load("x"), load("blocks")
	magnitude, ones8, ones16, zero := s.vec(), YMM(), YMM(), XMM()
	s.broadcast(0x7fffffff, magnitude)
	isa{lanes: 8}.broadcast(0x01010101, ones8)
	isa{lanes: 8}.broadcast(0x00010001, ones16)
	VPXOR(zero, zero, zero)
	top, one := XMM(), XMM()
	scalar(math.Float32bits(127), top)
	scalar(math.Float32bits(1), one)

	Label("loop")
	v := s.vecs(32 / s.lanes)
	peak := s.blockPeak(x, v, magnitude)
	scale, inverse, bits := XMM(), XMM(), GP32()
	VMOVD(peak, bits)
	CMPL(bits, U32(0x7f800000))
	JAE(LabelRef("notFinite"))
	VDIVSS(top, peak, scale)
	VDIVSS(scale, one, inverse)
	VMOVD(inverse, bits)
	CMPL(bits, U32(0x7f800000))
	JNE(LabelRef("quantize"))
	VPXOR(scale, scale, scale) // all zeros, or too small to have an inverse
	VPXOR(inverse, inverse, inverse)

	Label("quantize")
	ints, times := YMM(), s.vec()
	VBROADCASTSS(inverse, times)
	for _, v := range v {
		VMULPS(times, v, v)
		VCVTPS2DQ(v, v) // to even, as MXCSR has it in Go
	}
	s.pack(v, ints)
	VMOVDQU(ints, at(q, 0))
	sums, lo, total := YMM(), XMM(), XMM()
	VPMADDUBSW(ints, ones8, sums) // the sums of 4 values,
	VPMADDWD(ones16, sums, sums)
	VPHADDD(sums, sums, sums) // of 8, of 16 in all lanes of each half
	VPHADDD(sums, sums, sums)
	VEXTRACTI128(Imm(1), sums, total)
	VMOVDQA(sums.AsX(), lo)
	VPADDD(lo, total, total)
	float := XMM()
	VCVTDQ2PS(total, float)
	VMULSS(scale, float, float)
	VPSUBD(lo, zero, lo)
	VPSUBD(total, zero, total)
	VMOVD(scale, at(d, 0))
	VMOVD(float, at(sd, 0))
	VMOVD(total, at(neg, 0))
	VMOVD(lo, at(negLo, 0))

	Label("next")
	for _, p := range []reg.GPVirtual{q, d, sd, neg, negLo} {
		ADDQ(stride, p)
	}
	ADDQ(U32(4*32), x)
	DECQ(blocks)
	JNZ(LabelRef("loop"))
	end()

	Label("notFinite")
	VPXOR(ints, ints, ints)
	VMOVDQU(ints, at(q, 0))
	MOVL(U32(math.Float32bits(float32(math.NaN()))), at(d, 0))
	MOVL(U32(math.Float32bits(float32(math.NaN()))), at(sd, 0))
	MOVL(U32(0), at(neg, 0))
	MOVL(U32(0), at(negLo, 0))
	JMP(LabelRef("next"))
}

// blockPeak loads 32 values into v and returns the largest magnitude, by its bits.
func (s isa) blockPeak(x reg.GPVirtual, v []reg.VecVirtual, magnitude reg.VecVirtual) reg.VecVirtual {
	peaks := s.vecs(len(v))
	for i := range v {
		VMOVUPS(at(x, i*s.bytes()), v[i])
		s.and(magnitude, v[i], peaks[i])
	}
	for n := len(peaks) / 2; n > 0; n /= 2 {
		for i := range n {
			VPMAXUD(peaks[i+n], peaks[i], peaks[i])
		}
	}
	return s.reduce(peaks[0], func(a, b reg.VecVirtual) { VPMAXUD(b, a, a) })
}

// reduce folds a register's lanes into its first by an operation a = a op b, and returns the register that holds it.
func (s isa) reduce(v reg.VecVirtual, op func(a, b reg.VecVirtual)) reg.VecVirtual {
	y := v
	if s.lanes == 16 {
		lo, hi := YMM(), YMM()
		VEXTRACTF64X4(Imm(0), v, lo)
		VEXTRACTF64X4(Imm(1), v, hi)
		op(lo, hi)
		y = lo
	}
	x, hi := XMM(), XMM()
	VEXTRACTF128(Imm(0), y, x)
	VEXTRACTF128(Imm(1), y, hi)
	op(x, hi)
	VPSHUFD(Imm(0x4e), x, hi)
	op(x, hi)
	VPSHUFD(Imm(0xb1), x, hi)
	op(x, hi)
	return x
}

func (s isa) and(a, b, dst reg.VecVirtual) {
	if s.lanes == 16 {
		VPANDD(a, b, dst)
		return
	}
	VPAND(a, b, dst)
}

// pack makes 32 bytes of 32 integers that fit.
func (s isa) pack(v []reg.VecVirtual, dst reg.VecVirtual) {
	if s.lanes == 16 {
		hi := XMM()
		VPMOVDB(v[0], dst.AsX())
		VPMOVDB(v[1], hi)
		VINSERTI128(Imm(1), hi, dst, dst)
		return
	}
	VPACKSSDW(v[1], v[0], v[0]) // each half of a register is packed by itself, so quads of bytes come out as 0 2 4 6 1 3 5 7
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], dst)
	order := YMM()
	VMOVDQU(packOrder(), order)
	VPERMD(dst, order, dst)
}

var packOrderData *Mem

func packOrder() Mem {
	if packOrderData == nil {
		m := GLOBL("packOrder", RODATA|NOPTR)
		for i, quad := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
			DATA(4*i, U32(quad))
		}
		packOrderData = &m
	}
	return *packOrderData
}

// broadcast fills a register with 32 bits.
func (s isa) broadcast(bits uint32, v reg.VecVirtual) {
	x := XMM()
	scalar(bits, x)
	VPBROADCASTD(x, v)
}

func scalar(bits uint32, x reg.VecVirtual) {
	r := GP32()
	MOVL(U32(bits), r)
	VMOVD(r, x)
}
