package quant

import (
	"encoding/binary"
	"math"

	"memra/gguf"
)

// Q8_K: 256 values in 292 bytes, a scale, signed bytes and their sums, which are not needed to read them.
//
//	byte  0        4                          260             292
//	      ┌────────┬──────────────────────────┬───────────────┐
//	      │   d    │  q[0] q[1] ... q[255]    │  sums of 16   │    d f32, q int8, sums int16
//	      └────────┴──────────────────────────┴───────────────┘
//	x[j] = d * q[j]
func init() { registerWide(gguf.Q8_K, widenQ8_K, nil) }

func widenQ8_K(w *Wide, src []byte) {
	w.D = math.Float32frombits(binary.LittleEndian.Uint32(src))
	ones(&w.S)
	for j := range w.Q {
		w.Q[j] = int8(src[4+j])
	}
}

// ones is the scales of a format that has none of its own.
func ones(s *[16]int8) {
	for g := range s {
		s[g] = 1
	}
}
