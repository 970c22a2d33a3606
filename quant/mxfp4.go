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
func init() { register(gguf.MXFP4, decodeMXFP4, nil) }

// e2m1 holds the values of a float of 4 bits, doubled to be whole.
var e2m1 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	d := float32(math.Ldexp(1, int(src[0])-128)) // half of the scale, since e2m1 is doubled; exact, if subnormal for 0 and 1
	for j, b := range src[1:] {
		dst[j] = d * e2m1[b&15]
		dst[j+16] = d * e2m1[b>>4]
	}
}
