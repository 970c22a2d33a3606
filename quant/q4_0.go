package quant

import "memra/gguf"

// Q4_0: 32 values in 18 bytes, a scale and codes of 4 bits around 8.
//
//	byte  0      2                             18
//	      ┌──────┬─────────┬─────────┬─ ─┬─────────┐
//	      │  d   │ q16  q0 │ q17  q1 │   │ q31 q15 │    d f16; a byte's low nibble is in the first half of the block,
//	      └──────┴─────────┴─────────┴─ ─┴─────────┘    its high nibble in the second
//	x[j] = d * (q[j] - 8)
func init() { register(gguf.Q4_0, decodeQ4_0, encodeQ4_0) }

func decodeQ4_0(dst []float32, src []byte) {
	d := half(src)
	for j, b := range src[2:] {
		dst[j] = d * float32(int(b&15)-8)
		dst[j+16] = d * float32(int(b>>4)-8)
	}
}

// encodeQ4_0 gives code 0 to the value of the largest magnitude, whose sign d takes over with -8. For importance it searches.
func encodeQ4_0(dst []byte, src, importance []float32) {
	if importance != nil {
		putFour(dst[2:], searchLinear(dst, src, importance, 8))
		return
	}
	d := extreme(src) / -8
	inv := inverse(d)
	putHalf(dst, d)
	putFour(dst[2:], func(j int) byte { return code(float32(src[j]*inv)+8.5, 15) })
}

// putFour writes 32 codes of 4 bits.
func putFour(dst []byte, q func(j int) byte) {
	for j := range 16 {
		dst[j] = q(j) | q(j+16)<<4
	}
}
