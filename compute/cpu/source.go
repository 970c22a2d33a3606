package cpu

import (
	"encoding/binary"
	"math"
	"slices"

	"memra/gguf"
	"memra/quant"
)

// source is a way to pack a file's format without loss.
type source struct {
	layout *layout
	as     gguf.Type                       // the format that the layout is made for; the file's own, unless rows are converted
	fits   func(data []byte) bool          // whether the data can go this way; nil: any data can
	pack   func(dst, row []byte, lane int) // a row of the file, into one output of a group of zeros
}

// sources are the ways of every format, the one that takes the least memory first. The last takes any data.
var sources = map[gguf.Type][]source{
	gguf.Q8_0: {direct(layoutQ8, gguf.Q8_0)}, gguf.Q4_0: {direct(layoutQ4, gguf.Q4_0)}, gguf.Q4_1: {direct(layoutQ4M, gguf.Q4_1)},
	gguf.Q5_0: {direct(layoutQ5, gguf.Q5_0)}, gguf.Q5_1: {direct(layoutQ5M, gguf.Q5_1)}, gguf.Q2_K: {direct(layoutK2, gguf.Q2_K)},
	gguf.Q4_K: {direct(layoutK4, gguf.Q4_K)}, gguf.Q5_K: {direct(layoutK5, gguf.Q5_K)}, gguf.Q6_K: {direct(layoutK6, gguf.Q6_K)},
	gguf.F16: {direct(layoutF16, gguf.F16)}, gguf.BF16: {direct(layoutBF16, gguf.BF16)}, gguf.F32: {direct(layoutF32, gguf.F32)},

	gguf.Q3_K:  {converted(layoutK6, gguf.Q6_K, gguf.Q3_K, q3ToQ6)},
	gguf.TQ1_0: {unscaled(layoutQ4, gguf.Q4_0, gguf.TQ1_0, 52)}, gguf.TQ2_0: {unscaled(layoutQ4, gguf.Q4_0, gguf.TQ2_0, 64)},
	gguf.Q1_0: {unscaled(layoutQ4, gguf.Q4_0, gguf.Q1_0, 0)}, gguf.Q2_0: {unscaled(layoutQ4, gguf.Q4_0, gguf.Q2_0, 0)},
	gguf.Q8_1: {unscaled(layoutQ8, gguf.Q8_0, gguf.Q8_1, 0)}, gguf.IQ4_NL: {unscaled(layoutQ8, gguf.Q8_0, gguf.IQ4_NL, 0)},
	gguf.MXFP4: {mxfp4ToQ8, decoded(layoutBF16, gguf.BF16, gguf.MXFP4)}, // a code has two bits of fraction at most
	gguf.NVFP4: {decoded(layoutF16, gguf.F16, gguf.NVFP4)},              // a scale has four, its exponents fit

	gguf.IQ1_S: {wide(gguf.IQ1_S)}, gguf.IQ1_M: {wide(gguf.IQ1_M)}, gguf.IQ2_XXS: {wide(gguf.IQ2_XXS)}, gguf.IQ2_XS: {wide(gguf.IQ2_XS)},
	gguf.IQ2_S: {wide(gguf.IQ2_S)}, gguf.IQ3_XXS: {wide(gguf.IQ3_XXS)}, gguf.IQ3_S: {wide(gguf.IQ3_S)}, gguf.IQ4_XS: {wide(gguf.IQ4_XS)},
	gguf.Q8_K: {wide(gguf.Q8_K)},

	gguf.F64: {decoded(layoutF32, gguf.F32, gguf.F64)}, gguf.I8: {decoded(layoutF32, gguf.F32, gguf.I8)}, gguf.I16: {decoded(layoutF32, gguf.F32, gguf.I16)},
	gguf.I32: {decoded(layoutF32, gguf.F32, gguf.I32)}, gguf.I64: {decoded(layoutF32, gguf.F32, gguf.I64)},
}

// sourceOf is the first way that the data can go.
func sourceOf(t gguf.Type, data []byte) source {
	ways := sources[t]
	return ways[slices.IndexFunc(ways, func(s source) bool { return s.fits == nil || s.fits(data) })]
}

// RunsAs says, for people, how the processor keeps matrices of a format: a format's name, or several where the data decides.
func RunsAs(t gguf.Type) string {
	var names string
	for i, s := range sources[t] {
		name := s.as.String()
		if s.layout == layoutK8 {
			name = "8-bit integers" // of no format that files have
		}
		if i > 0 {
			names += " or "
		}
		names += name
	}
	return names
}

// direct is a format that a layout is made for.
func direct(l *layout, t gguf.Type) source { return source{layout: l, as: t, pack: l.pack} }

// wide is a format of integers that are packed as such.
func wide(t gguf.Type) source {
	return source{layout: layoutK8, as: t, pack: packWide(known(t))}
}

// converted is a format whose rows become rows of another, block by block: a block of `from` is one or more of `to`.
func converted(l *layout, to, from gguf.Type, block func(dst, src []byte)) source {
	f, g := known(from), known(to)
	n := f.Block / g.Block * g.Bytes
	return source{layout: l, as: to, pack: func(dst, row []byte, o int) {
		as := make([]byte, len(row)/f.Bytes*n)
		for i := range len(row) / f.Bytes {
			block(as[i*n:][:n], row[i*f.Bytes:][:f.Bytes])
		}
		l.pack(dst, as, o)
	}}
}

// unscaled is a format whose values, but for the one f16 scale at a byte of its block, are integers that Q4_0 or Q8_0 can have:
// with a scale of 1 the block decodes to them.
func unscaled(l *layout, to, from gguf.Type, at int) source {
	f, g := known(from), known(to)
	return converted(l, to, from, func(dst, src []byte) {
		one := slices.Clone(src)
		binary.LittleEndian.PutUint16(one[at:], quant.F32ToF16(1))
		q := make([]float32, f.Block)
		f.Dequantize(q, one)
		putIntegers(dst, src[at:at+2], q, g)
	})
}

// putIntegers writes blocks of Q8_0 or Q4_0 with a scale and codes.
func putIntegers(dst, scale []byte, q []float32, g *quant.Format) {
	for ; len(q) > 0; q, dst = q[blockLen:], dst[g.Bytes:] {
		copy(dst, scale)
		for j := range blockLen {
			if g.Type == gguf.Q8_0 {
				dst[2+j] = byte(int8(q[j]))
			} else if j < blockLen/2 {
				dst[2+j] = byte(int(q[j])+8) | byte(int(q[j+blockLen/2])+8)<<4
			}
		}
	}
}

// decoded is a format whose values are kept as floats.
func decoded(l *layout, to, from gguf.Type) source {
	f, g := known(from), known(to)
	return source{layout: l, as: to, pack: func(dst, row []byte, o int) {
		x := make([]float32, len(row)/f.Bytes*f.Block)
		as := make([]byte, len(x)*g.Bytes)
		f.Dequantize(x, row)
		g.Quantize(as, x, nil)
		l.pack(dst, as, o)
	}}
}

// mxfp4ToQ8 makes the power of two an f16, for blocks whose power is one.
var mxfp4ToQ8 = func() source {
	f, g := known(gguf.MXFP4), known(gguf.Q8_0)
	s := converted(layoutQ8, gguf.Q8_0, gguf.MXFP4, func(dst, src []byte) {
		q, scale := make([]float32, f.Block), make([]byte, 2)
		one := slices.Clone(src)
		one[0] = 128 // 2^0 times the doubled codes
		f.Dequantize(q, one)
		binary.LittleEndian.PutUint16(scale, quant.F32ToF16(float32(math.Ldexp(1, int(src[0])-128))))
		putIntegers(dst, scale, q, g)
	})
	s.fits = func(data []byte) bool {
		for ; len(data) > 0; data = data[f.Bytes:] {
			if e := int(data[0]) - 128; e < -24 || e > 15 {
				return false
			}
		}
		return true
	}
	return s
}()

// q3ToQ6 writes a block of Q3_K as one of Q6_K: the same scales of eight bits for six, codes around 32 for such around 4.
func q3ToQ6(dst, src []byte) {
	var w quant.Wide
	known(gguf.Q3_K).Widen(&w, src)
	low, up, s := dst[:128], dst[128:192], dst[192:208]
	for g, v := range w.S {
		s[g] = byte(v)
	}
	for j, v := range w.Q {
		h, r, l, q := j/128, j%128/32, j%32, byte(v+32)
		low[64*h+32*(r%2)+l] |= q & 15 << (4 * (r / 2))
		up[32*h+l] |= q >> 4 << (2 * r)
	}
	copy(dst[208:], src[108:110])
}

// known is a format that is known to be there.
func known(t gguf.Type) *quant.Format {
	f, err := quant.For(t)
	if err != nil {
		panic(err)
	}
	return f
}
