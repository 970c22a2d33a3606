package quant

import "memra/gguf"

// IQ2_S: 256 values in 82 bytes: sixteen groups of 16, each two entries of a table of 1024 with the values 8, 25 and 43.
//
//	byte  0      2          34            66       74        82
//	      ┌──────┬──────────┬─────────────┬────────┬─────────┐    d f16; bit i of sign[l] is minus for value i of entry l
//	      │  d   │  e[32]   │  sign[32]   │  h[8]  │  s[8]   │    h: bits 2(l%4) and up of h[l/4] are the upper two of entry l
//	      └──────┴──────────┴─────────────┴────────┴─────────┘    s: nibbles, as in IQ2_XS
//	x[8l+i] = d*(s + 1/2)/4 * ±entry[e[l] | upper<<8][i]
func init() { registerWide(gguf.IQ2_S, widenIQ2_S, nil) }

func widenIQ2_S(w *Wide, src []byte) {
	w.D = half(src) / 8
	oddNibbles(&w.S, src[74:82])
	for l := range 32 {
		h := src[66+l/4] >> (2 * (l % 4)) & 3
		gridIQ2_S.put(w.Q[8*l:], int(src[2+l])|int(h)<<8, src[34+l])
	}
}
