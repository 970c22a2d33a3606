package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ1_M: 256 values in 56 bytes: sixteen groups of 16 with a scale each, two entries of IQ1_S's table to a group, every entry
// moved on its own.
//
//	byte  0          32       48         56
//	      ┌──────────┬────────┬──────────┐    h: nibble l%2 of h[l/2] has the upper three bits of entry l and, in bit 3, its way
//	      │  qs[32]  │ h[16]  │ s[4] u16 │    s: bits 3i..3i+2 of s[k] are the scale of group 4k+i;
//	      └──────────┴────────┴──────────┘    the four uppermost nibbles are d, an f16, the lowest first
//	x[8l+i] = d*(2s+1) * (entry[qs[l] | upper<<8][i] ± 1/8)
func init() { registerWide(gguf.IQ1_M, widenIQ1_M, nil) }

func widenIQ1_M(w *Wide, src []byte) {
	var d uint16
	for k := range 4 {
		s := binary.LittleEndian.Uint16(src[48+2*k:])
		d |= s >> 12 << (4 * k)
		for i := range 4 {
			w.S[4*k+i] = int8(2*(s>>(3*i)&7) + 1)
		}
	}
	w.D = F16ToF32(d) / 8
	for l := range 32 {
		h := src[32+l/2] >> (4 * (l % 2))
		gridIQ1.putShifted(w.Q[8*l:], int(src[l])|int(h&7)<<8, h&8 != 0)
	}
}
