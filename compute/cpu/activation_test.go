package cpu

import (
	"math"
	"testing"
)

// eachFloat calls test for about a million float32 of every magnitude, evenly by their bits, and their negatives.
func eachFloat(test func(x float32)) {
	for bits := uint32(0); bits < 0x7f800000; bits += 4093 {
		test(math.Float32frombits(bits))
		test(-math.Float32frombits(bits))
	}
}

func TestExpAgreesWithFloat64(t *testing.T) {
	worst, at := 0.0, float32(0)
	check := func(x float32) {
		got, want := float64(exp(x)), math.Exp(float64(x))
		switch {
		case x < expMin:
			want = 0 // below 1.2e-38, the smallest float32 that is not denormal
		case x > expMax:
			want = math.Inf(1) // above 2.4e38, where 2^128 is near
		default:
			if e := math.Abs(got-want) / want; e > worst {
				worst, at = e, x
			}
			return
		}
		if got != want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	eachFloat(check)
	for x := float32(expMin); x <= expMax; x += 1. / 4096 {
		check(x)
	}
	if worst > 1e-7 {
		t.Errorf("exp(%v) is wrong by %v relative, the bound is 1e-7", at, worst)
	}
	t.Logf("worst relative error %.3g at %v", worst, at)
	if x := exp(float32(math.NaN())); x == x {
		t.Errorf("exp(NaN) = %v", x)
	}
	if exp(0) != 1 {
		t.Errorf("exp(0) = %v, want 1", exp(0))
	}
}

// TestGatesAgreeWithFloat64: y = x/(1+e^-z). A wrong e by 1e-7, one by a rounding of z (|z|*2^-24 relative each, two more in gelu),
// a sum, a quotient and a product: at most (1e-7 + 5*2^-24*(1+|z|)) relative. Where e^-z exceeds 2.4e38 it is infinite and y is
// zero, wrong by |x|/2.4e38.
func TestGatesAgreeWithFloat64(t *testing.T) {
	const u, root = 0x1p-24, 0.7978845608028654 // sqrt(2/pi)
	for _, c := range []struct {
		name   string
		kernel func(y, g, u []float32)
		exact  func(x float64) (y, z float64)
	}{
		{"silu", swigluGo, func(x float64) (float64, float64) { return x / (1 + math.Exp(-x)), x }},
		{"gelu", gegluGo, func(x float64) (float64, float64) {
			z := root * (x + 0.044715*x*x*x)
			if x < 0 { // 1 + tanh(z), without its cancellation
				return x / (1 + math.Exp(-2*z)), 2 * z
			}
			return x / 2 * (1 + math.Tanh(z)), 2 * z
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			worst := 0.0
			eachFloat(func(x float32) {
				var y [1]float32
				c.kernel(y[:], []float32{x}, []float32{1})
				want, z := c.exact(float64(x))
				limit := math.Abs(want)*(1e-7+5*u*(1+min(100, math.Abs(z)))) + math.Abs(float64(x))/2.4e38 + 0x1p-149
				if e := math.Abs(float64(y[0]) - want); !(e <= limit) {
					t.Fatalf("%s(%v) = %v, float64 gives %v, at most %v apart", c.name, x, y[0], want, limit)
				} else if math.Abs(z) < 10 && want != 0 && math.Abs(float64(x)) > 1e-30 {
					worst = max(worst, e/math.Abs(want))
				}
			})
			t.Logf("worst relative error for |z| < 10: %.3g", worst)
		})
	}
}
