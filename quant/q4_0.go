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

// encodeQ4_0 gives code 0 to the value of the largest magnitude, whose sign d takes over with -8.
func encodeQ4_0(dst []byte, src []float32) {
	d := extreme(src) / -8
	inv := inverse(d)
	putHalf(dst, d)
	for j := range 16 {
		low, high := code(float32(src[j]*inv)+8.5, 15), code(float32(src[j+16]*inv)+8.5, 15)
		dst[2+j] = low | high<<4
	}
}
