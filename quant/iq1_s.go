package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ1_S: 256 values in 50 bytes: eight groups of 32, each four entries of a table of 2048 with the values -1, 0 and 1, moved
// by an eighth up or down.
//
//	byte  0      2            34           50
//	      ┌──────┬────────────┬────────────┐    d f16
//	      │  d   │   qs[32]   │   h[8]     │    h u16: bits 3l..3l+2 are the upper bits of entry l of the group,
//	      └──────┴────────────┴────────────┘    bits 12..14 its scale s, bit 15 set moves down
//	x[32g+8l+i] = d*(2s+1) * (entry[qs[4g+l] | upper<<8][i] ± 1/8)
//
// In eighths that is whole: d/8, and entries times eight, plus or minus one.
func init() { registerWide(gguf.IQ1_S, widenIQ1_S, nil) }

func widenIQ1_S(w *Wide, src []byte) {
	w.D = half(src) / 8
	for g := range 8 {
		h := binary.LittleEndian.Uint16(src[34+2*g:])
		s := int8(2*(h>>12&7) + 1)
		w.S[2*g], w.S[2*g+1] = s, s
		for l := range 4 {
			gridIQ1.putShifted(w.Q[32*g+8*l:], int(src[2+4*g+l])|int(h>>(3*l)&7)<<8, h&0x8000 != 0)
		}
	}
}

// putShifted writes entry i in eighths, moved by one up or down.
func (g *grid) putShifted(dst []int8, i int, down bool) {
	move := int8(1)
	if down {
		move = -1
	}
	for k, v := range g.values[i*g.width:][:g.width] {
		dst[k] = 8*v + move
	}
}
