package quant

import "memra/gguf"

// Q5_K: 256 values in 176 bytes: Q4_K with a fifth bit.
//
//	byte  0      2      4              16          48                                              176
//	      ┌──────┬──────┬──────────────┬───────────┬───────────────┬───────────────┬─ ─┬───────────────┐
//	      │  d   │ dmin │ s[8]   m[8]  │   h[32]   │ groups 1 | 0  │ groups 3 | 2  │   │ groups 7 | 6  │
//	      └──────┴──────┴──────────────┴───────────┴───────────────┴───────────────┴─ ─┴───────────────┘
//	                                    bit g of h[l] is the fifth bit of q[g,l]
//	x[32g+l] = d*s[g] * q[g,l] - dmin*m[g]
func init() { register(gguf.Q5_K, decodeQ5_K, encodeQ5_K) }

func decodeQ5_K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	h := src[16:48]
	for g := range 8 {
		s, m := scaleMin(src[4:16], g)
		scale, low := d*float32(s), float32(dmin*float32(m))
		qs, shift := src[48+32*(g/2):], 4*(g%2)
		for l := range 32 {
			q := qs[l]>>shift&15 | h[l]>>g&1<<4
			dst[32*g+l] = float32(scale*float32(q)) - low
		}
	}
}

func encodeQ5_K(dst []byte, src, importance []float32) {
	s, m, q := affine{group: 32, top: 31, steps: 63}.fit(dst, dst[2:], src, importance)
	putScaleMins(dst[4:], s[:8], m[:8])
	h := dst[16:48]
	clear(h)
	for j, q := range q {
		h[j%32] |= q >> 4 << (j / 32)
	}
	for g := 0; g < 8; g += 2 {
		for l := range 32 {
			dst[48+16*g+l] = q[32*g+l]&15 | q[32*g+32+l]<<4
		}
	}
}
