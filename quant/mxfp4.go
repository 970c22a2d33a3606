package quant

import (
	"math"

	"memra/gguf"
)

// MXFP4: 32 values in 17 bytes, a power of two and floats of 4 bits (OCP Microscaling Formats 1.0).
//
//	byte  0   1                             17
//	      ┌───┬─────────┬─────────┬─ ─┬─────────┐
//	      │ e │ q16  q0 │ q17  q1 │   │ q31 q15 │    nibbles as in Q4_0: sign, exponent of two bits, fraction of one
//	      └───┴─────────┴─────────┴─ ─┴─────────┘
//	x[j] = 2^(e-127) * e2m1[q[j]] / 2
func init() { register(gguf.MXFP4, decodeMXFP4, encodeMXFP4) }

// e2m1 holds the values of a float of 4 bits, doubled to be whole.
var e2m1 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	d := halfScale(int(src[0]))
	for j, b := range src[1:] {
		dst[j] = d * e2m1[b&15]
		dst[j+16] = d * e2m1[b>>4]
	}
}

// halfScale is half of the scale 2^(e-127), since e2m1 is doubled; exact, if subnormal for 0 and 1.
func halfScale(e int) float32 { return float32(math.Ldexp(1, e-128)) }

// encodeMXFP4 takes the exponent of the largest magnitude, less that of the largest code: what the standard says. For importance
// it tries the exponents next to it as well.
func encodeMXFP4(dst []byte, src, importance []float32) {
	var e int
	if most := largest(src); most > 0 {
		e = int(clamp(math.Floor(math.Log2(float64(most)))-2+127, 0, 254))
	}
	if importance != nil {
		best, center := math.Inf(1), e
		for trial := max(0, center-1); trial <= min(254, center+1); trial++ {
			d, sum := halfScale(trial), 0.0
			for j, x := range src {
				miss := float64(d*e2m1[e2m1Code(x, d)]) - float64(x)
				sum += float64(float64(importance[j]) * miss * miss)
			}
			if sum < best {
				best, e = sum, trial
			}
		}
	}
	dst[0] = byte(e)
	d := halfScale(e)
	putFour(dst[1:], func(j int) byte { return e2m1Code(src[j], d) })
}

// e2m1Code returns the code whose value times d is nearest to x; of two, that of the smaller magnitude.
func e2m1Code(x, d float32) byte {
	code, side := byte(0), byte(0)
	if x < 0 {
		side = 8
	}
	miss := abs(x)
	for c := side + 1; c < side+8; c++ {
		if m := abs(float32(d*e2m1[c]) - x); m < miss {
			code, miss = c, m
		}
	}
	return code
}
