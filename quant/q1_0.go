package quant

import "memra/gguf"

// Q1_0: 128 values in 18 bytes, a scale and signs.
//
//	byte  0      2                 18
//	      ┌──────┬─────────────────┐
//	      │  d   │     b[16]       │    d f16; bit j%8 of b[j/8] set is plus
//	      └──────┴─────────────────┘
//	x[j] = d * (2*bit[j] - 1)
func init() { register(gguf.Q1_0, decodeQ1_0, nil) }

func decodeQ1_0(dst []float32, src []byte) {
	d := half(src)
	for j := range dst {
		dst[j] = d * float32(2*int(src[2+j/8]>>(j%8)&1)-1)
	}
}
