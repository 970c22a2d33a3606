package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ4_XS: 256 values in 136 bytes: eight groups of 32 with a scale of 6 bits around 32, and the codes of IQ4_NL.
//
//	byte  0     2     4          8                                                136
//	      ┌─────┬─────┬──────────┬───────────────┬───────────────┬─ ─┬───────────────┐    d f16
//	      │  d  │ up  │  low[4]  │   group 0     │   group 1     │   │   group 7     │    nibbles as in Q4_0
//	      └─────┴─────┴──────────┴───────────────┴───────────────┴─ ─┴───────────────┘    within each group
//	s[g]: four low bits in nibble g%2 of low[g/2], two upper ones at bit 2g of up, a u16
//	x[32g+l] = d*(s[g] - 32) * uneven[q[g,l]]
func init() { register(gguf.IQ4_XS, decodeIQ4_XS, nil) }

func decodeIQ4_XS(dst []float32, src []byte) {
	d, up, low := half(src), binary.LittleEndian.Uint16(src[2:]), src[4:8]
	for g := range 8 {
		s := int(low[g/2]>>(4*(g%2))&15) | int(up>>(2*g)&3)<<4
		scale := d * float32(s-32)
		for l, b := range src[8+16*g:][:16] {
			dst[32*g+l] = scale * uneven[b&15]
			dst[32*g+l+16] = scale * uneven[b>>4]
		}
	}
}
