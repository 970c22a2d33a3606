package quant

import "memra/gguf"

// TQ2_0: 256 values of -1, 0 or 1 (a fourth code, 2, is unused but decodes) in 66 bytes: four to a byte.
//
//	byte  0           32          64     66
//	      ┌───────────┬───────────┬──────┐    For each half h of the block (128 values) and its quarter r (32 values),
//	      │ qs, h = 0 │ qs, h = 1 │  d   │    q of value 128h+32r+l is at bit 2r of qs[32h + l]; d f16
//	      └───────────┴───────────┴──────┘
//	x[j] = d * (q[j] - 1)
func init() { registerWide(gguf.TQ2_0, widenTQ2_0, nil) }

func widenTQ2_0(w *Wide, src []byte) {
	w.D = half(src[64:])
	ones(&w.S)
	for j := range w.Q {
		h, r, l := j/128, j%128/32, j%32
		w.Q[j] = int8(src[32*h+l]>>(2*r)&3) - 1
	}
}
