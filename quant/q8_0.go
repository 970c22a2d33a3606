package quant

import (
	"math"

	"memra/gguf"
)

// Q8_0: 32 values in 34 bytes, a scale and signed bytes.
//
//	byte  0      2                       34
//	      ┌──────┬───────────────────────┐
//	      │  d   │  q[0] q[1] ... q[31]  │    d f16, q int8
//	      └──────┴───────────────────────┘
//	x[j] = d * q[j]
func init() { register(gguf.Q8_0, decodeQ8_0, encodeQ8_0) }

func decodeQ8_0(dst []float32, src []byte) {
	d := half(src)
	for j := range dst {
		dst[j] = d * float32(int8(src[2+j]))
	}
}

// encodeQ8_0 makes the largest magnitude 127 and rounds ties away from zero.
func encodeQ8_0(dst []byte, src, _ []float32) {
	d := largest(src) / 127
	inv := inverse(d)
	putHalf(dst, d)
	for j, x := range src {
		// Rounded in float64, where adding a half cannot round by itself.
		dst[2+j] = byte(int8(clamp(math.Round(float64(x*inv)), -128, 127)))
	}
}
