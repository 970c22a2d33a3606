package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// rotateHalves turns n pairs, a multiple of 8, whose halves lie apart.
func rotateHalves() {
	TEXT("rotateHalvesAVX2", NOSPLIT, "func(lo, hi, cos, sin *float32, n int)")
	lo, hi, cos, sin, n := load("lo"), load("hi"), load("cos"), load("sin"), load("n")
	each("loop", n, 8, func() {
		a, b, c, s, t := YMM(), YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(lo, 0), a)
		VMOVUPS(at(hi, 0), b)
		VMOVUPS(at(cos, 0), c)
		VMOVUPS(at(sin, 0), s)
		VMULPS(s, b, t)
		VMULPS(c, b, b)
		VMULPS(s, a, s)
		VMULPS(c, a, a)
		VSUBPS(t, a, a)
		VADDPS(b, s, b)
		VMOVUPS(a, at(lo, 0))
		VMOVUPS(b, at(hi, 0))
	}, lo, hi, cos, sin)
	end()
}

// rotateNeighbours turns n pairs, a multiple of 4, whose halves are neighbours.
func rotateNeighbours() {
	TEXT("rotateNeighboursAVX2", NOSPLIT, "func(x, cos, sin *float32, n int)")
	x, cos, sin, n := load("x"), load("cos"), load("sin"), load("n")
	each("loop", n, 4, func() {
		v, c, s, t := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(x, 0), v)
		VPMOVZXDQ(at(cos, 0), c)
		VPMOVZXDQ(at(sin, 0), s)
		VMOVSLDUP(c, c)
		VMOVSLDUP(s, s)
		VPERMILPS(Imm(0xb1), v, t) // b a b a
		VMULPS(c, v, v)
		VMULPS(s, t, t)
		VADDSUBPS(t, v, v) // a*cos - b*sin, b*cos + a*sin
		VMOVUPS(v, at(x, 0))
		ADDQ(Imm(32), x)
	}, cos, sin)
	end()
}
