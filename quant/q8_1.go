package quant

import "memra/gguf"

// Q8_1: 32 values in 36 bytes: Q8_0 and the sum of the values, which is not needed to read them.
//
//	byte  0      2      4                       36
//	      ┌──────┬──────┬───────────────────────┐
//	      │  d   │ sum  │  q[0] q[1] ... q[31]  │    d, sum f16, q int8
//	      └──────┴──────┴───────────────────────┘
//	x[j] = d * q[j]
func init() { register(gguf.Q8_1, decodeQ8_1, nil) }

func decodeQ8_1(dst []float32, src []byte) {
	d := half(src)
	for j := range dst {
		dst[j] = d * float32(int8(src[4+j]))
	}
}
