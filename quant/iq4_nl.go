package quant

import "memra/gguf"

// IQ4_NL: 32 values in 18 bytes, a scale and codes of 4 bits that name one of 16 unevenly spaced steps.
//
//	byte  0      2                             18
//	      ┌──────┬─────────┬─────────┬─ ─┬─────────┐
//	      │  d   │ q16  q0 │ q17  q1 │   │ q31 q15 │    d f16; nibbles as in Q4_0
//	      └──────┴─────────┴─────────┴─ ─┴─────────┘
//	x[j] = d * uneven[q[j]]
func init() { register(gguf.IQ4_NL, decodeIQ4_NL, encodeIQ4_NL) }

// uneven holds the steps of IQ4_NL and IQ4_XS: dense around zero, as weights are.
var uneven = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, src []byte) {
	d := half(src)
	for j, b := range src[2:] {
		dst[j] = d * uneven[b&15]
		dst[j+16] = d * uneven[b>>4]
	}
}

func encodeIQ4_NL(dst []byte, src, importance []float32) {
	var w [32]float64
	weightOf(w[:], src, importance)
	d := float64(putHalf(dst, float32(fitUneven(src, w[:]))))
	putUneven(dst[2:], src, inverse(d))
}
