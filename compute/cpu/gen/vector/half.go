package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

const nearest = 0 // VCVTPS2PH: round to nearest, to even

// halve converts values to halves.
func halve() {
	TEXT("halveF16C", NOSPLIT, "func(dst *uint16, src *float32, n int)")
	dst, src, n := load("dst"), load("src"), load("n")
	each("loop", n, 16, func() {
		for i := range 2 {
			v := YMM()
			VMOVUPS(at(src, 32*i), v)
			VCVTPS2PH(Imm(nearest), v, at(dst, 16*i))
		}
		ADDQ(Imm(32), dst)
	}, src)
	end()
}

// widen converts halves to float32.
func widen() {
	TEXT("widenF16C", NOSPLIT, "func(dst *float32, src *uint16, n int)")
	dst, src, n := load("dst"), load("src"), load("n")
	each("loop", n, 16, func() {
		for i := range 2 {
			v := YMM()
			VCVTPH2PS(at(src, 16*i), v)
			VMOVUPS(v, at(dst, 32*i))
		}
		ADDQ(Imm(32), src)
	}, dst)
	end()
}

// spread converts values to halves, each into the row of a page's transposed keys.
func spread() {
	TEXT("spreadF16C", NOSPLIT, "func(dst *uint16, src *float32, n int)")
	dst, src, n := load("dst"), load("src"), load("n")
	each("loop", n, 8, func() {
		v, h := YMM(), XMM()
		VMOVUPS(at(src, 0), v)
		VCVTPS2PH(Imm(nearest), v, h)
		for i := range 8 {
			VPEXTRW(Imm(uint64(i)), h, at(dst, 2*page*i))
		}
		ADDQ(U32(8*2*page), dst)
	}, src)
	end()
}
