package cpu

import "math"

// exp is e^x in float32: the one exponential of the CPU class, in softmax and in activations. Every operator rounds once,
// none is fused; assembly keeps the order.
//
//	n = round_to_even(x*log2(e))    r = (x - n*0.693359375) + n*2.12194440e-4
//	p = ((((c0*r + c1)*r + c2)*r + c3)*r + c4)*r + c5    exp(x) = 2^n * ((p*(r*r) + r) + 1)
//
// Below -87.33 it is 0, above 88.37 infinite; NaN gives NaN. In between the relative error stays below 1e-7 (the
// polynomial is Cephes' expf).
func exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	if x > expMax {
		return float32(math.Inf(1))
	}
	n := roundToEven(float32(x * log2e))
	r := x - float32(n*ln2Hi)
	r = r + float32(n*ln2Lo)
	p := float32(expC0*r) + expC1
	p = float32(p*r) + expC2
	p = float32(p*r) + expC3
	p = float32(p*r) + expC4
	p = float32(p*r) + expC5
	p = (float32(p*float32(r*r)) + r) + 1
	if n != n {
		return n
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

const (
	expMin = -87.33
	expMax = 88.37
	log2e  = 1.44269504088896341
	ln2Hi  = 0.693359375
	ln2Lo  = 2.12194440e-4
	expC0  = 1.9875691500e-4
	expC1  = 1.3981999507e-3
	expC2  = 8.3334519073e-3
	expC3  = 4.1665795894e-2
	expC4  = 1.6666665459e-1
	expC5  = 5.0000001201e-1
)

// swigluGo is y = g/(1+exp(-g)) * u, element by element: quotient, then product.
func swigluGo(y, g, u []float32) {
	for i, x := range g {
		y[i] = float32(x/(1+exp(-x))) * u[i]
	}
}

// gegluGo is y = gelu(g) * u with gelu(x) = x / (1 + exp(-2*sqrt(2/pi)*(x + 0.044715*x^3))), which is the tanh form:
//
//	t = 1 + geluCubic*(x*x)    z = (x*t)*geluOuter    y = (x / (1+exp(-z))) * u
func gegluGo(y, g, u []float32) {
	for i, x := range g {
		t := float32(geluCubic*float32(x*x)) + 1
		z := float32(float32(x*t) * geluOuter)
		y[i] = float32(x/(1+exp(-z))) * u[i]
	}
}

const (
	geluCubic = 0.044715
	geluOuter = 1.5957691216057308 // 2*sqrt(2/pi)
)
