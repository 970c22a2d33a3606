package quant

import "memra/gguf"

// Q4_1: 32 values in 20 bytes, a scale, a minimum and codes of 4 bits.
//
//	byte  0      2      4                             20
//	      ┌──────┬──────┬─────────┬─────────┬─ ─┬─────────┐
//	      │  d   │  m   │ q16  q0 │ q17  q1 │   │ q31 q15 │    d, m f16; nibbles as in Q4_0
//	      └──────┴──────┴─────────┴─────────┴─ ─┴─────────┘
//	x[j] = d * q[j] + m
func init() { register(gguf.Q4_1, decodeQ4_1, encodeQ4_1) }

func decodeQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for j, b := range src[4:] {
		dst[j] = float32(d*float32(b&15)) + m
		dst[j+16] = float32(d*float32(b>>4)) + m
	}
}

// encodeQ4_1 spreads the codes from the smallest to the largest value. For importance it searches.
func encodeQ4_1(dst []byte, src, importance []float32) {
	if importance != nil {
		putFour(dst[4:], searchAffine(dst, src, importance, 15))
		return
	}
	m, top := span(src)
	d := (top - m) / 15
	inv := inverse(d)
	putHalf(dst, d)
	putHalf(dst[2:], m)
	putFour(dst[4:], func(j int) byte { return code(float32((src[j]-m)*inv)+0.5, 15) })
}
