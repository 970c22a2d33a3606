package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// Q5_1: 32 values in 24 bytes, a scale, a minimum and codes of 5 bits.
//
//	byte  0      2      4            8                             24
//	      ┌──────┬──────┬────────────┬─────────┬─────────┬─ ─┬─────────┐
//	      │  d   │  m   │     h      │ q16  q0 │ q17  q1 │   │ q31 q15 │    d, m f16; h and nibbles as in Q5_0
//	      └──────┴──────┴────────────┴─────────┴─────────┴─ ─┴─────────┘
//	x[j] = d * q[j] + m
func init() { register(gguf.Q5_1, decodeQ5_1, encodeQ5_1) }

func decodeQ5_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	h := binary.LittleEndian.Uint32(src[4:])
	for j, b := range src[8:] {
		dst[j] = float32(d*float32(fifth(b&15, h, j))) + m
		dst[j+16] = float32(d*float32(fifth(b>>4, h, j+16))) + m
	}
}

// encodeQ5_1 spreads the codes from the smallest to the largest value. For importance it searches.
func encodeQ5_1(dst []byte, src, importance []float32) {
	if importance != nil {
		putFive(dst[4:], searchAffine(dst, src, importance, 31))
		return
	}
	m, top := span(src)
	d := (top - m) / 31
	inv := inverse(d)
	putHalf(dst, d)
	putHalf(dst[2:], m)
	putFive(dst[4:], func(j int) byte { return code(float32((src[j]-m)*inv)+0.5, 31) })
}
