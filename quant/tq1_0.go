package quant

import "memra/gguf"

// TQ1_0: 256 values of -1, 0 or 1 in 54 bytes: five to a byte, as digits of base 3.
//
//	byte  0                              32              48    52    54
//	      ┌──────────────────────────────┬───────────────┬─────┬─────┐
//	      │ digit k of byte i is value   │ value         │ *   │  d  │    d f16
//	      │ 32k+i, k = 0..4              │ 160+16k+i     │     │     │    *: value 240+4k+i, k = 0..3
//	      └──────────────────────────────┴───────────────┴─────┴─────┘
//	x[j] = d * (digit[j] - 1)
//
// A byte is the fraction 0.d0 d1 d2 d3 d4 of base 3, times 256 and rounded up: multiplying by 3 moves the next digit in
// front of the point, which is where the upper byte of the product starts.
func init() { registerWide(gguf.TQ1_0, widenTQ1_0, nil) }

func widenTQ1_0(w *Wide, src []byte) {
	w.D = half(src[52:])
	ones(&w.S)
	spread(w.Q[:160], src[:32])
	spread(w.Q[160:240], src[32:48])
	spread(w.Q[240:], src[48:52])
}

// spread decodes digit k of byte i to dst[k*len(src)+i], for as many digits as dst has room for.
func spread(dst []int8, src []byte) {
	for i, b := range src {
		for j := i; j < len(dst); j += len(src) {
			digit := int(b) * 3 >> 8
			b *= 3
			dst[j] = int8(digit - 1)
		}
	}
}
