package quant

import "memra/gguf"

// Q4_K: 256 values in 144 bytes: eight groups of 32, each with a scale and a minimum of 6 bits, codes of 4 bits.
//
//	byte  0      2      4              16                                              144
//	      ┌──────┬──────┬──────────────┬───────────────┬───────────────┬─ ─┬───────────────┐
//	      │  d   │ dmin │ s[8]   m[8]  │ groups 1 | 0  │ groups 3 | 2  │   │ groups 7 | 6  │    d, dmin f16
//	      └──────┴──────┴──────────────┴───────────────┴───────────────┴─ ─┴───────────────┘
//	                    6 bits each       32 bytes: the low nibbles are a group, the high nibbles the next
//	x[32g+l] = d*s[g] * q[g,l] - dmin*m[g]
func init() { register(gguf.Q4_K, decodeQ4_K, encodeQ4_K) }

func decodeQ4_K(dst []float32, src []byte) {
	d, dmin := half(src), half(src[2:])
	for g := range 8 {
		s, m := scaleMin(src[4:16], g)
		scale, low := d*float32(s), float32(dmin*float32(m))
		qs, shift := src[16+32*(g/2):], 4*(g%2)
		for l := range 32 {
			dst[32*g+l] = float32(scale*float32(qs[l]>>shift&15)) - low
		}
	}
}

// scaleMin unpacks the scale and the minimum of group g, 6 bits each, from the 12 bytes that Q4_K and Q5_K share:
//
//	bits      7 6   5 .. 0
//	byte 0-3  s+4'  s[0-3]     s+4' and m+4': the upper two bits of s[4-7] and m[4-7]
//	     4-7  m+4'  m[0-3]
//	    8-11  m[4-7] (7..4), s[4-7] (3..0): their lower four bits
func scaleMin(b []byte, g int) (s, m byte) {
	if g < 4 {
		return b[g] & 63, b[g+4] & 63
	}
	return b[g+4]&15 | b[g-4]>>6<<4, b[g+4]>>4 | b[g]>>6<<4
}

// putScaleMins packs what scaleMin unpacks, for all eight groups.
func putScaleMins(b, s, m []byte) {
	for g := range 4 {
		b[g] = s[g] | s[g+4]>>4<<6
		b[g+4] = m[g] | m[g+4]>>4<<6
		b[g+8] = s[g+4]&15 | m[g+4]<<4
	}
}

func encodeQ4_K(dst []byte, src, importance []float32) {
	s, m, q := affine{group: 32, top: 15, steps: 63}.fit(dst, dst[2:], src, importance)
	putScaleMins(dst[4:], s[:8], m[:8])
	for g := 0; g < 8; g += 2 {
		for l := range 32 {
			dst[16+16*g+l] = q[32*g+l] | q[32*g+32+l]<<4
		}
	}
}
