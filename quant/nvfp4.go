package quant

import (
	"math"

	"memra/gguf"
)

// NVFP4: 64 values in 36 bytes: four groups of 16 with a float of 8 bits as scale, floats of 4 bits.
//
//	byte  0      4          12          20          28          36
//	      ┌──────┬──────────┬───────────┬───────────┬───────────┐    s: exponent of four bits, fraction of three (UE4M3)
//	      │ s[4] │ group 0  │  group 1  │  group 2  │  group 3  │    a byte's low nibble is in the first half of the group, its
//	      └──────┴──────────┴───────────┴───────────┴───────────┘    high one in the second; a nibble is one of MXFP4's
//	x[16g+i] = ue4m3(s[g])/2 * e2m1[q[g,i]]
//
// A scale for the whole tensor, where a file has one, is another tensor of it.
func init() { register(gguf.NVFP4, decodeNVFP4, nil) }

func decodeNVFP4(dst []float32, src []byte) {
	for g := range 4 {
		d := ue4m3(src[g]) / 2
		for i, b := range src[4+8*g:][:8] {
			dst[16*g+i] = d * e2m1[b&15]
			dst[16*g+i+8] = d * e2m1[b>>4]
		}
	}
}

// ue4m3 is a float of 7 bits without a sign, its eighth bit of no effect; the code that other formats of this kind read as
// NaN is zero.
func ue4m3(b byte) float32 {
	e, m := int(b>>3&15), float64(b&7)
	switch {
	case b == 0x7f:
		return 0
	case e == 0:
		return float32(math.Ldexp(m, -9))
	}
	return float32(math.Ldexp(8+m, e-10))
}
