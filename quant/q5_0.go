package quant

import (
	"encoding/binary"

	"memra/gguf"
)

// Q5_0: 32 values in 22 bytes, a scale and codes of 5 bits around 16.
//
//	byte  0      2            6                             22
//	      ┌──────┬────────────┬─────────┬─────────┬─ ─┬─────────┐
//	      │  d   │     h      │ q16  q0 │ q17  q1 │   │ q31 q15 │    d f16; nibbles as in Q4_0;
//	      └──────┴────────────┴─────────┴─────────┴─ ─┴─────────┘    h u32: its bit j is the fifth bit of q[j]
//	x[j] = d * (q[j] - 16)
func init() { register(gguf.Q5_0, decodeQ5_0, encodeQ5_0) }

func decodeQ5_0(dst []float32, src []byte) {
	d := half(src)
	h := binary.LittleEndian.Uint32(src[2:])
	for j, b := range src[6:] {
		dst[j] = d * float32(int(fifth(b&15, h, j))-16)
		dst[j+16] = d * float32(int(fifth(b>>4, h, j+16))-16)
	}
}

// fifth adds bit j of h to a nibble.
func fifth(nibble byte, h uint32, j int) byte { return nibble | byte(h>>j&1)<<4 }

// encodeQ5_0 gives code 0 to the value of the largest magnitude, whose sign d takes over with -16. For importance it searches.
func encodeQ5_0(dst []byte, src, importance []float32) {
	if importance != nil {
		putFive(dst[2:], searchLinear(dst, src, importance, 16))
		return
	}
	d := extreme(src) / -16
	inv := inverse(d)
	putHalf(dst, d)
	putFive(dst[2:], func(j int) byte { return code(float32(src[j]*inv)+16.5, 31) })
}

// putFive writes 32 codes of 5 bits: the u32 of fifth bits, then the nibbles.
func putFive(dst []byte, q func(j int) byte) {
	var h uint32
	for j := range 16 {
		low, high := q(j), q(j+16)
		h |= uint32(low>>4)<<j | uint32(high>>4)<<(j+16)
		dst[4+j] = low&15 | high<<4
	}
	binary.LittleEndian.PutUint32(dst, h)
}
