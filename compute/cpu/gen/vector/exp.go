package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of package cpu's exp.go.
const (
	expMin    = -87.33
	expMax    = 88.37
	log2e     = 1.44269504088896341
	magic     = 12582912
	ln2Hi     = 0.693359375
	ln2Lo     = 2.12194440e-4
	geluCubic = 0.044715
	geluOuter = 1.5957691216057308
)

var expC = []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

var (
	inf  = float32(math.Inf(1))
	sign = math.Float32frombits(1 << 31)
)

// constants are the operands of a kernel that stay: in registers where there are 32, else in memory.
type constants struct {
	isa
	held map[uint32]Op
}

var constantData = map[uint32]Mem{}

// hold readies constants before a loop.
func (s isa) hold(values ...float32) constants {
	c := constants{s, map[uint32]Op{}}
	for _, v := range values {
		bits := math.Float32bits(v)
		if s.lanes == 16 {
			r := s.vec()
			s.broadcast(bits, r)
			c.held[bits] = r
			continue
		}
		if _, ok := constantData[bits]; !ok {
			m := GLOBL(constantName(v), RODATA|NOPTR)
			for i := range 8 {
				DATA(4*i, U32(bits))
			}
			constantData[bits] = m
		}
		c.held[bits] = constantData[bits]
	}
	return c
}

// of is the operand that holds v in every lane.
func (c constants) of(v float32) Op {
	op, ok := c.held[math.Float32bits(v)]
	if !ok {
		panic("vector: a constant is used and not held")
	}
	return op
}

var expConstants = append([]float32{expMin, log2e, magic, ln2Hi, ln2Lo, 1}, expC...)

// exp returns e^x, leaving x as it is. Callers whose x may exceed expMax bound the result by upper.
func (c constants) exp(x reg.VecVirtual) reg.VecVirtual {
	n, r, p, t := c.vec(), c.vec(), c.vec(), c.vec()
	VMULPS(c.of(log2e), x, n)
	VADDPS(c.of(magic), n, n)
	VSUBPS(c.of(magic), n, n)
	VMULPS(c.of(ln2Hi), n, t)
	VSUBPS(t, x, r)
	VMULPS(c.of(ln2Lo), n, t)
	VADDPS(t, r, r)
	VMULPS(c.of(expC[0]), r, p)
	VADDPS(c.of(expC[1]), p, p)
	for _, coefficient := range expC[2:] {
		VMULPS(r, p, p)
		VADDPS(c.of(coefficient), p, p)
	}
	VMULPS(r, r, t)
	VMULPS(t, p, p)
	VADDPS(r, p, p)
	VADDPS(c.of(1), p, p)
	if c.lanes == 16 {
		in := K()
		VCMPPS(Imm(5), c.of(expMin), x, in) // not below, so with NaN, which the scaling keeps
		VSCALEFPS_Z(n, p, in, p)
		return p
	}
	VCVTPS2DQ(n, n) // of NaN 1<<31, shifted out below
	VPSLLD(Imm(23), n, n)
	VPADDD(n, p, p)
	VCMPPS(Imm(1), c.of(expMin), x, t)
	VANDNPS(p, t, p)
	return p
}

// upper makes e, the exponential of x, infinite above expMax.
func (c constants) upper(x, e reg.VecVirtual) {
	const above = 0x1e
	if c.lanes == 16 {
		k := K()
		VCMPPS(Imm(above), c.of(expMax), x, k)
		VMOVAPS(c.of(inf), k, e)
		return
	}
	t := c.vec()
	VCMPPS(Imm(above), c.of(expMax), x, t)
	VBLENDVPS(t, c.of(inf), e, e)
}

// gate is y = activation(g) * u.
func (s isa) gate(name string, activation func(c constants, x reg.VecVirtual) reg.VecVirtual) {
	s.function(name, "func(y, gate, up *float32, n int)")
	y, gate, up, n := load("y"), load("gate"), load("up"), load("n")
	values := append([]float32{expMax, inf, sign}, expConstants...)
	if name == "geglu" {
		values = append(values, geluCubic, geluOuter)
	}
	c := s.hold(values...)
	each("loop", n, s.lanes, func() {
		x := s.vec()
		VMOVUPS(at(gate, 0), x)
		a := activation(c, x)
		VMULPS(at(up, 0), a, a)
		VMOVUPS(a, at(y, 0))
	}, y, gate, up)
	end()
}

// silu returns x / (1 + exp(-x)).
func (s isa) silu(c constants, x reg.VecVirtual) reg.VecVirtual { return c.sigmoid(x, x) }

// gelu returns x / (1 + exp(-z)), z = (x * (1 + geluCubic*(x*x))) * geluOuter.
func (s isa) gelu(c constants, x reg.VecVirtual) reg.VecVirtual {
	z := s.vec()
	VMULPS(x, x, z)
	VMULPS(c.of(geluCubic), z, z)
	VADDPS(c.of(1), z, z)
	VMULPS(x, z, z)
	VMULPS(c.of(geluOuter), z, z)
	return c.sigmoid(x, z)
}

// sigmoid returns x / (1 + exp(-z)).
func (c constants) sigmoid(x, z reg.VecVirtual) reg.VecVirtual {
	minus := c.vec()
	c.xor(c.of(sign), z, minus)
	e := c.exp(minus)
	c.upper(minus, e)
	VADDPS(c.of(1), e, e)
	VDIVPS(e, x, e)
	return e
}

func (s isa) xor(a Op, b, dst reg.VecVirtual) {
	if s.lanes == 16 {
		VPXORD(a, b, dst)
		return
	}
	VXORPS(a, b, dst)
}

// softmax turns a page's scores into probabilities relative to the largest so far.
func (s isa) softmax() {
	s.function("softmax", "func(scores *float32, peak *float32, sums *float32) float32")
	scores, peak, sums := load("scores"), load("peak"), load("sums")
	c := s.hold(expConstants...)
	top, old := s.vec(), s.vec()
	VBROADCASTSS(at(peak, 0), old)
	// VMAXPS gives its second source where one is NaN: a NaN score does not raise the maximum.
	v := s.vec()
	VMOVAPS(old, top)
	for i := 0; i < 64; i += s.lanes {
		VMOVUPS(at(scores, 4*i), v)
		VMAXPS(top, v, top)
	}
	x := s.reduce(top, func(a, b reg.VecVirtual) { VMAXPS(b, a, a) })
	VMOVSS(x, at(peak, 0))
	VBROADCASTSS(x, top)
	VSUBPS(top, old, old)
	rescale := c.exp(old)
	VMOVSS(rescale.AsX(), place(ReturnIndex(0)))
	sum := s.vecs(16 / s.lanes)
	for i := range sum {
		VMOVUPS(at(sums, i*s.bytes()), sum[i])
		VMULPS(rescale, sum[i], sum[i])
	}
	for i := 0; i < 64; i += s.lanes {
		VMOVUPS(at(scores, 4*i), v)
		VSUBPS(top, v, v)
		p := c.exp(v)
		VMOVUPS(p, at(scores, 4*i))
		VADDPS(p, sum[i/s.lanes%len(sum)], sum[i/s.lanes%len(sum)])
	}
	for i := range sum {
		VMOVUPS(sum[i], at(sums, i*s.bytes()))
	}
	end()
}

func constantName(v float32) string { return fmt.Sprintf("const_%08x", math.Float32bits(v)) }
