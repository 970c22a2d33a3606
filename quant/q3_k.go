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
func init() { register(gguf.Q3_K, decodeQ3_K, nil) }

func decodeQ3_K(dst []float32, src []byte) {
	up, qs, s, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for g := range 16 {
		h, r, l := g/8, g%8/2, g%2*16
		scale := d * float32(int(sixBits(s, g))-32)
		qs, up := qs[32*h+l:][:16], up[l:][:16]
		for i := range 16 {
			q := qs[i]>>(2*r)&3 | up[i]>>(4*h+r)&1<<2
			dst[16*g+i] = scale * float32(int(q)-4)
		}
	}
}

// sixBits unpacks number g of the sixteen that twelve bytes hold:
//
//	byte 0-7   low four bits of g+8 (7..4) and of g (3..0)
//	     8-11  upper two bits of g+12, g+8, g+4, g
func sixBits(b []byte, g int) byte {
	return b[g%8]>>(4*(g/8))&15 | b[8+g%4]>>(2*(g/4))&3<<4
}
