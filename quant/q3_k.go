package quant

import "memra/gguf"

// Q3_K: 256 values in 110 bytes: sixteen groups of 16 with a scale of 6 bits around 32, codes of 3 bits around 4.
//
//	byte  0           32          64          96         108   110
//	      ┌───────────┬───────────┬───────────┬──────────┬─────┐    For each half h of the block (128 values) and its
//	      │   up[32]  │ qs, h = 0 │ qs, h = 1 │  s[16]   │  d  │    quarter r (32 values), value 128h+32r+l has
//	      │           │           │           │ 12 bytes │ f16 │      2 low bits at bit 2r of qs[32h + l]
//	      └───────────┴───────────┴───────────┴──────────┴─────┘      1 upper bit, bit 4h+r of up[l]
//	x[j] = d*(s[j/16] - 32) * (q[j] - 4)
func init() { registerWide(gguf.Q3_K, widenQ3_K, encodeQ3_K) }

func widenQ3_K(w *Wide, src []byte) {
	up, qs, s := src[:32], src[32:96], src[96:108]
	w.D = half(src[108:])
	for g := range 16 {
		h, r, l := g/8, g%8/2, g%2*16
		w.S[g] = int8(sixBits(s, g)) - 32
		qs, up := qs[32*h+l:][:16], up[l:][:16]
		for i := range 16 {
			q := qs[i]>>(2*r)&3 | up[i]>>(4*h+r)&1<<2
			w.Q[16*g+i] = int8(q) - 4
		}
	}
}

func encodeQ3_K(dst []byte, src, importance []float32) {
	s, q := signed{half: 4, steps: 32}.fit(dst[108:], src, importance)
	clear(dst[:108])
	for g, s := range s {
		putSixBits(dst[96:108], g, s)
	}
	up, qs := dst[:32], dst[32:96]
	for j, q := range q {
		h, r, l := j/128, j%128/32, j%32
		qs[32*h+l] |= q & 3 << (2 * r)
		up[l] |= q >> 2 << (4*h + r)
	}
}

// sixBits unpacks number g of the sixteen that twelve bytes hold:
//
//	byte 0-7   low four bits of g+8 (7..4) and of g (3..0)
//	     8-11  upper two bits of g+12, g+8, g+4, g
func sixBits(b []byte, g int) byte {
	return b[g%8]>>(4*(g/8))&15 | b[8+g%4]>>(2*(g/4))&3<<4
}

// putSixBits packs what sixBits unpacks, into zeros.
func putSixBits(b []byte, g int, s byte) {
	b[g%8] |= s & 15 << (4 * (g / 8))
	b[8+g%4] |= s >> 4 << (2 * (g / 4))
}
