package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ2_XXS: 256 values in 66 bytes: eight groups of 32, each four entries of a table of 256 with the values 8, 25 and 43.
//
//	byte  0      2                                66
//	      ┌──────┬─────────────┬─────────────┬─ ─┐    d f16
//	      │  d   │ e[4]  b u32 │ e[4]  b u32 │   │    b: bits 7l..7l+6 are the signs of entry l's first seven values, the
//	      └──────┴─────────────┴─────────────┴─ ─┘    eighth makes their number even; bits 28..31 the group's scale s
//	x[32g+8l+i] = d*(s + 1/2)/4 * ±entry[e[l]][i]
//
// In eighths that is whole: d/8 and 2s+1.
func init() { registerWide(gguf.IQ2_XXS, widenIQ2_XXS, nil) }

func widenIQ2_XXS(w *Wide, src []byte) {
	w.D = half(src) / 8
	for g := range 8 {
		e := src[2+8*g:]
		b := binary.LittleEndian.Uint32(e[4:])
		s := int8(2*(b>>28) + 1)
		w.S[2*g], w.S[2*g+1] = s, s
		for l := range 4 {
			gridIQ2_XXS.put(w.Q[32*g+8*l:], int(e[l]), evenSigns(b>>(7*l)))
		}
	}
}
