package quant

import "memra/gguf"

// Q2_K: 256 values in 84 bytes: sixteen groups of 16, each with a scale and a minimum of 4 bits, codes of 2 bits.
//
//	byte  0                16          48          80     82     84
//	      ┌────────────────┬───────────┬───────────┬──────┬──────┐    sm: scale in the low nibble, minimum in the high one
//	      │    sm[16]      │ qs, h = 0 │ qs, h = 1 │  d   │ dmin │    d, dmin f16
//	      └────────────────┴───────────┴───────────┴──────┴──────┘    For each half h of the block (128 values) and its
//	                                                                   quarter r (32 values), q of value 128h+32r+l is
//	x[j] = d*s[j/16] * q[j] - dmin*m[j/16]                             at bit 2r of qs[32h + l]
func init() { register(gguf.Q2_K, decodeQ2_K, encodeQ2_K) }

func decodeQ2_K(dst []float32, src []byte) {
	sm, qs, d, dmin := src[:16], src[16:80], half(src[80:]), half(src[82:])
	for g := range 16 {
		h, r, l := g/8, g%8/2, g%2*16
		scale, low := d*float32(sm[g]&15), float32(dmin*float32(sm[g]>>4))
		for i, b := range qs[32*h+l:][:16] {
			dst[16*g+i] = float32(scale*float32(b>>(2*r)&3)) - low
		}
	}
}

func encodeQ2_K(dst []byte, src, importance []float32) {
	s, m, q := affine{group: 16, top: 3, steps: 15}.fit(dst[80:], dst[82:], src, importance)
	for g := range 16 {
		dst[g] = s[g] | m[g]<<4
	}
	qs := dst[16:80]
	clear(qs)
	for j, q := range q {
		qs[j/128*32+j%32] |= q << (j % 128 / 32 * 2)
	}
}
