package main

import (
	. "github.com/mmcloughlin/avo/build"
)

// bend is y = cap - outer / (1 + exp(x * twice)).
func (s isa) bend() {
	s.function("bend", "func(y, x *float32, twice, outer, cap float32, n int)")
	y, x, n := load("y"), load("x"), load("n")
	c := s.hold(append([]float32{expMax, inf}, expConstants...)...)
	twice, outer, limit := s.vec(), s.vec(), s.vec()
	VBROADCASTSS(place(Param("twice")), twice)
	VBROADCASTSS(place(Param("outer")), outer)
	VBROADCASTSS(place(Param("cap")), limit)
	each("loop", n, s.lanes, func() {
		v := s.vec()
		VMULPS(at(x, 0), twice, v)
		e := c.exp(v)
		c.upper(v, e)
		VADDPS(c.of(1), e, e)
		VDIVPS(e, outer, e)
		VSUBPS(e, limit, e)
		VMOVUPS(e, at(y, 0))
	}, y, x)
	end()
}
