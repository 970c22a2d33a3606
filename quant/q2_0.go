package quant

import "memra/gguf"

// Q2_0: 64 values of -1, 0, 1 and 2 in 18 bytes, a scale and codes of 2 bits.
//
//	byte  0      2                 18
//	      ┌──────┬─────────────────┐
//	      │  d   │     b[16]       │    d f16; q[j] at bit 2(j%4) of b[j/4]
//	      └──────┴─────────────────┘
//	x[j] = d * (q[j] - 1)
func init() { register(gguf.Q2_0, decodeQ2_0, nil) }

func decodeQ2_0(dst []float32, src []byte) {
	d := half(src)
	for j := range dst {
		dst[j] = d * float32(int(src[2+j/4]>>(2*(j%4))&3)-1)
	}
}
