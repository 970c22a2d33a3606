package quant

import (
	"encoding/binary"
	"math"

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
func init() { registerWide(gguf.IQ4_XS, widenIQ4_XS, encodeIQ4_XS) }

func widenIQ4_XS(w *Wide, src []byte) {
	up, low := binary.LittleEndian.Uint16(src[2:]), src[4:8]
	w.D = half(src)
	for g := range 8 {
		s := int8(low[g/2]>>(4*(g%2))&15) | int8(up>>(2*g)&3)<<4
		w.S[2*g], w.S[2*g+1] = s-32, s-32
		for l, b := range src[8+16*g:][:16] {
			w.Q[32*g+l] = int8(uneven[b&15])
			w.Q[32*g+l+16] = int8(uneven[b>>4])
		}
	}
}

func encodeIQ4_XS(dst []byte, src, importance []float32) {
	var w [256]float64
	var scale [8]float64
	var most float64 // the scale of the largest magnitude, with its sign
	for g := range 8 {
		x, w := src[32*g:][:32], w[32*g:][:32]
		weightOf(w, x, part(importance, 32*g, 32*g+32))
		scale[g] = fitUneven(x, w)
		if math.Abs(scale[g]) > math.Abs(most) {
			most = scale[g]
		}
	}
	clear(dst[:8])
	d := float64(putHalf(dst, float32(most/-32)))
	var up uint16
	for g := range 8 {
		x, w := src[32*g:][:32], w[32*g:][:32]
		var step float64
		best := math.Inf(1)
		for _, trial := range around(scale[g], d, -32, 31) {
			if e := unevenError(x, w, d*trial); e < best {
				best, step = e, trial
			}
		}
		s := byte(step + 32)
		dst[4+g/2] |= s & 15 << (4 * (g % 2))
		up |= uint16(s>>4) << (2 * g)
		putUneven(dst[8+16*g:], x, inverse(d*step))
	}
	binary.LittleEndian.PutUint16(dst[2:], up)
}
