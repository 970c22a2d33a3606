// Package exact holds elementary functions that give the same bits on every machine.
//
// Go's math package may use assembly on one architecture and fused multiply-adds on another, so the last bit of math.Exp is
// not portable. These functions are made of +, -, *, / and bit operations in one order; every product that is added to
// something is converted, which forbids the compiler to fuse it. The algorithms and constants are FreeBSD's msun
// (s_sin.c, e_exp.c, e_log.c); errors stay below one unit in the last place over the ranges stated.
package exact

import "math"

// mul is a product rounded once: its result never fuses into an addition.
func mul(x, y float64) float64 { return float64(x * y) }

// SinCos is sin(x) and cos(x), for |x| up to 2^20*pi/2 (beyond, the reduction loses bits gradually). NaN and infinities
// give NaN.
func SinCos(x float64) (sin, cos float64) {
	const (
		twoOverPi = 6.36619772367581382433e-01
		pio2a     = 1.57079632673412561417e+00 // the first 33 bits of pi/2
		pio2b     = 6.07710050630396597660e-11 // the next 33
		pio2c     = 2.02226624871116645580e-21 // the next 33
		pio2d     = 8.47842766036889956997e-32 // what is left
	)
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.NaN(), math.NaN()
	}
	n := math.RoundToEven(mul(x, twoOverPi))
	r := x - mul(n, pio2a)
	r -= mul(n, pio2b)
	r -= mul(n, pio2c)
	r -= mul(n, pio2d)
	s, c := sinKernel(r), cosKernel(r)
	switch int64(n) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// sinKernel is sin(x) for |x| <= pi/4.
func sinKernel(x float64) float64 {
	z := mul(x, x)
	p := polynomial(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
		-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
	return x + mul(mul(z, x), p)
}

// cosKernel is cos(x) for |x| <= pi/4.
func cosKernel(x float64) float64 {
	z := mul(x, x)
	p := polynomial(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
		2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
	half := mul(0.5, z)
	w := 1 - half
	return w + (((1 - w) - half) + mul(mul(z, z), p))
}

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Exp is e^x. It is 0 below -745.13 and +Inf above 709.78; NaN gives NaN.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 709.782712893384:
		return math.Inf(1)
	case x < -745.133219101941:
		return 0
	}
	n := math.RoundToEven(mul(x, 1.44269504088896338700))
	hi := x - mul(n, ln2Hi)
	lo := mul(n, ln2Lo)
	r := hi - lo
	t := mul(r, r)
	c := r - mul(t, polynomial(t, 4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
		-2.77777777770155933842e-03, 1.66666666666666019037e-01))
	y := 1 - ((lo - mul(r, c)/(2-c)) - hi)
	return math.Ldexp(y, int(n))
}

// Log is the natural logarithm of x. It is -Inf at 0, NaN below.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	m, e := math.Frexp(x) // x = m * 2^e, m in [1/2, 1)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	f, k := m-1, float64(e)
	s := f / (2 + f)
	z := mul(s, s)
	p := mul(z, polynomial(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
		2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01))
	half := mul(0.5, mul(f, f))
	return mul(k, ln2Hi) - ((half - (mul(s, half+p) + mul(k, ln2Lo))) - f)
}

// Pow is x^y for x > 0, as Exp(y*Log(x)): relative error grows with |y*Log(x)|, about 1e-15 at 14.
func Pow(x, y float64) float64 { return Exp(mul(y, Log(x))) }

// polynomial is c[0]*x^(n-1) + ... + c[n-1], by Horner's rule.
func polynomial(x float64, c ...float64) float64 {
	p := c[0]
	for _, v := range c[1:] {
		p = mul(p, x) + v
	}
	return p
}
