package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// IQ3_XXS: 256 values in 98 bytes: eight groups of 32, each eight entries of a table of 256 with four values of 4 to 62.
//
//	byte  0      2                  66                98
//	      ┌──────┬──────────────────┬─────────────────┐    d f16
//	      │  d   │      e[64]       │    b[8] u32     │    b: signs of eight values a time and the scale, as in IQ2_XXS
//	      └──────┴──────────────────┴─────────────────┘
//	x[32g+4k+i] = d*(s + 1/2)/2 * ±entry[e[8g+k]][i]
//
// In quarters that is whole: d/4 and 2s+1.
func init() { registerWide(gguf.IQ3_XXS, widenIQ3_XXS, nil) }

func widenIQ3_XXS(w *Wide, src []byte) {
	w.D = half(src) / 4
	for g := range 8 {
		b := binary.LittleEndian.Uint32(src[66+4*g:])
		s := int8(2*(b>>28) + 1)
		w.S[2*g], w.S[2*g+1] = s, s
		for k := range 8 {
			gridIQ3_XXS.put(w.Q[32*g+4*k:], int(src[2+8*g+k]), evenSigns(b>>(7*(k/2)))>>(4*(k%2)))
		}
	}
}
