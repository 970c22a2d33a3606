package quant

import "memra/gguf"

// IQ3_S: 256 values in 110 bytes: eight groups of 32, each eight entries of a table of 512 with four odd values of 1 to 15.
//
//	byte  0      2              66       74             106    110
//	      ┌──────┬──────────────┬────────┬──────────────┬──────┐    d f16; bit k of h[g] is the ninth bit of entry 8g+k
//	      │  d   │    e[64]     │  h[8]  │   sign[32]   │ s[4] │    sign: bit i of sign[j] is minus for value 8j+i
//	      └──────┴──────────────┴────────┴──────────────┴──────┘    s: the scale of group g in nibble g%2 of s[g/2]
//	x[32g+4k+i] = d*(2s+1) * ±entry[e[8g+k] | bit<<8][i]
func init() { registerWide(gguf.IQ3_S, widenIQ3_S, nil) }

func widenIQ3_S(w *Wide, src []byte) {
	w.D = half(src)
	for g := range 8 {
		s := int8(2*(src[106+g/2]>>(4*(g%2))&15) + 1)
		w.S[2*g], w.S[2*g+1] = s, s
		for k := range 8 {
			e := int(src[2+8*g+k]) | int(src[66+g]>>k&1)<<8
			gridIQ3_S.put(w.Q[32*g+4*k:], e, src[74+4*g+k/2]>>(4*(k%2)))
		}
	}
}
