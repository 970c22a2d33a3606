package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ2_XS: 256 values in 74 bytes: sixteen groups of 16, each two entries of a table of 512 with the values 8, 25 and 43.
//
//	byte  0      2                66         74
//	      ┌──────┬────────────────┬──────────┐    d f16
//	      │  d   │   e[32] u16    │   s[8]   │    e: nine bits of entry, then seven signs as in IQ2_XXS
//	      └──────┴────────────────┴──────────┘    s: the scale of group g in nibble g%2 of s[g/2]
//	x[16g+8l+i] = d*(s + 1/2)/4 * ±entry[e[2g+l]][i]
func init() { registerWide(gguf.IQ2_XS, widenIQ2_XS, nil) }

func widenIQ2_XS(w *Wide, src []byte) {
	w.D = half(src) / 8
	oddNibbles(&w.S, src[66:74])
	for l := range 32 {
		e := binary.LittleEndian.Uint16(src[2+2*l:])
		gridIQ2_XS.put(w.Q[8*l:], int(e&511), evenSigns(uint32(e>>9)))
	}
}

// oddNibbles makes 2n+1 of sixteen nibbles, a byte's low one first.
func oddNibbles(s *[16]int8, b []byte) {
	for g := range s {
		s[g] = int8(2*(b[g/2]>>(4*(g%2))&15) + 1)
	}
}
