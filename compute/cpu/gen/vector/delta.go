package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// addProducts is y = y + w*x.
func (s isa) addProducts() {
	s.function("addProducts", "func(y, w, x *float32, n int)")
	y, w, x, n := load("y"), load("w"), load("x"), load("n")
	v := s.vec()
	each("loop", n, s.lanes, func() {
		VMOVUPS(at(x, 0), v)
		VMULPS(at(w, 0), v, v)
		VADDPS(at(y, 0), v, v)
		VMOVUPS(v, at(y, 0))
	}, y, w, x)
	end()
}

// openGate is y = x / (1 + exp(-z)).
func (s isa) openGate() {
	s.function("sigmoid", "func(y, x, z *float32, n int)")
	y, x, z, n := load("y"), load("x"), load("z"), load("n")
	c := s.hold(append([]float32{expMax, inf, sign}, expConstants...)...)
	each("loop", n, s.lanes, func() {
		value, gate := s.vec(), s.vec()
		VMOVUPS(at(x, 0), value)
		VMOVUPS(at(z, 0), gate)
		VMOVUPS(c.sigmoid(value, gate), at(y, 0))
	}, y, x, z)
	end()
}

// decay is y = x * exp(top - sums).
func (s isa) decay() {
	s.function("decay", "func(y, x, sums *float32, top float32, n int)")
	y, x, sums, n := load("y"), load("x"), load("sums"), load("n")
	c := s.hold(append([]float32{expMax, inf}, expConstants...)...)
	top := s.vec()
	VBROADCASTSS(place(Param("top")), top)
	each("loop", n, s.lanes, func() {
		v := s.vec()
		VSUBPS(at(sums, 0), top, v)
		e := c.exp(v)
		c.upper(v, e)
		VMULPS(at(x, 0), e, e)
		VMOVUPS(e, at(y, 0))
	}, y, x, sums)
	end()
}

// addMatrix adds the products of n rows of a with the rows of b, which are converted by nothing and shared by all n, to n rows of y.
// Rows lie so many bytes apart. As many columns at a time as fit stay in registers, then sixteen at a time.
//
//	    columns ->
//	k   b[k][0..15] .. b[k][48..63]      x a[i][k], added to y[i][0..63]
func (s isa) addMatrix(n int) {
	s.function(fmt.Sprintf("addMatrix%d", n), "func(y, a, b *float32, ly, la, lb, depth, width int)")
	y, a, b := load("y"), load("a"), load("b")
	out, in := strideBy(load("ly"), n), strideBy(load("la"), n)
	next, depth, left := load("lb"), load("depth"), load("width")
	for _, width := range []int{s.width, 16} {
		loop, done, inner := fmt.Sprintf("width%d", width), fmt.Sprintf("done%d", width), fmt.Sprintf("depth%d", width)
		Label(loop)
		CMPQ(left, Imm(uint64(width)))
		JL(LabelRef(done))
		value, product := s.vecs(width/s.lanes), s.vec()
		sums := s.vecs(n * len(value))
		for i := range n {
			for j := range value {
				VMOVUPS(out.row(y, i, j*s.bytes()), sums[i*len(value)+j])
			}
		}
		atA, atB, count := GP64(), GP64(), GP64()
		MOVQ(a, atA)
		MOVQ(b, atB)
		MOVQ(depth, count)
		Label(inner)
		for j := range value {
			VMOVUPS(at(atB, j*s.bytes()), value[j])
		}
		for i := range n {
			s.accumulate(sums[i*len(value):], value, in.row(atA, i, 0), product)
		}
		ADDQ(Imm(4), atA)
		ADDQ(next, atB)
		DECQ(count)
		JNZ(LabelRef(inner))
		for i := range n {
			for j := range value {
				VMOVUPS(sums[i*len(value)+j], out.row(y, i, j*s.bytes()))
			}
		}
		ADDQ(U32(4*width), y)
		ADDQ(U32(4*width), b)
		SUBQ(Imm(uint64(width)), left)
		JMP(LabelRef(loop))
		Label(done)
	}
	end()
}
