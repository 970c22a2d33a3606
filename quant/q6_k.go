package quant

import "memra/gguf"

// Q6_K: 256 values in 210 bytes: sixteen groups of 16 with a signed scale of 8 bits, codes of 6 bits around 32.
//
//	byte  0                128        192       208   210
//	      ┌────────┬────────┬────┬────┬──────────┬─────┐    For each half h of the block (128 values) and its quarter
//	      │ low    │ low    │ up │ up │  s[16]   │  d  │    r (32 values), value 128h+32r+l has
//	      │ h = 0  │ h = 1  │ 0  │ 1  │   int8   │ f16 │      4 low bits in nibble r/2 of low[64h + 32(r%2) + l]
//	      └────────┴────────┴────┴────┴──────────┴─────┘      2 upper bits at bit 2r of up[32h + l]
//	x[j] = d*s[j/16] * (q[j] - 32)
func init() { register(gguf.Q6_K, decodeQ6_K, encodeQ6_K) }

func decodeQ6_K(dst []float32, src []byte) {
	low, up, s, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for g := range 16 {
		h, r, l := g/8, g%8/2, g%2*16
		scale := d * float32(int8(s[g]))
		low, up := low[64*h+32*(r%2)+l:][:16], up[32*h+l:][:16]
		for i := range 16 {
			q := low[i]>>(4*(r/2))&15 | up[i]>>(2*r)&3<<4
			dst[16*g+i] = scale * float32(int(q)-32)
		}
	}
}

func encodeQ6_K(dst []byte, src, importance []float32) {
	s, q := signed{half: 32, steps: 128}.fit(dst[208:], src, importance)
	for g, s := range s {
		dst[192+g] = s ^ 0x80 // from 0 on to int8
	}
	low, up := dst[:128], dst[128:192]
	clear(dst[:192])
	for j, q := range q {
		h, r, l := j/128, j%128/32, j%32
		low[64*h+32*(r%2)+l] |= q & 15 << (4 * (r / 2))
		up[32*h+l] |= q >> 4 << (2 * r)
	}
}
