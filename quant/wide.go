package quant

import "memra/gguf"

// Wide is a block of 256 values as signed integers under integer scales: what every format without minima and with few enough
// bits is, once its tables are looked up. A backend that has a layout for Wide runs all of them.
//
//	x[16g+i] = (D * S[g]) * Q[16g+i]    each product rounded to float32
type Wide struct {
	D float32
	S [16]int8
	Q [256]int8
}

// decode computes the values.
func (w *Wide) decode(dst []float32) {
	for g, s := range w.S {
		scale := w.D * float32(s)
		q, dst := w.Q[16*g:][:16], dst[16*g:][:16]
		for i := range dst {
			dst[i] = scale * float32(q[i])
		}
	}
}

// registerWide adds a format whose blocks are Wide to the table.
func registerWide(t gguf.Type, widen func(w *Wide, src []byte), encode encoder) {
	register(t, func(dst []float32, src []byte) {
		var w Wide
		widen(&w, src)
		w.decode(dst)
	}, encode)
	formats[t].Widen = widen
}
