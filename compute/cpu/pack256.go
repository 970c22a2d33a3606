package cpu

import (
	"encoding/binary"

	"memra/gguf"
)

// The layouts of formats with blocks of 256 and integer scales of their eight sub-blocks of 32. The scales stay integers,
// so a weight keeps its file's size.
//
//	layoutK4   16 d, 16 dmin    8 times: 16 scales, 16 minima, 256 bytes of nibbles            q
//	layoutK5   16 d, 16 dmin    8 times: 16 scales, 16 minima, 256 bytes, 64 of fifth bits     q
//	layoutK6   16 d             8 times: 2 x 16 scales (of 16 k each), 256 bytes, 128 of pairs q+32
//
// Pairs (fifth and sixth bits): bits 2j and 2j+1 of byte 64*h+4*o+i belong to vector 2j+h.
var (
	layoutK4 = &layout{name: "k4", formats: []gguf.Type{gguf.Q4_K}, step: 256, bytes: affineBytes(4),
		pack: func(dst, row []byte, o int) { packAffine(dst, row, o, 4) }, unpack: unpackAffine(4)}
	layoutK5 = &layout{name: "k5", formats: []gguf.Type{gguf.Q5_K}, step: 256, bytes: affineBytes(5),
		pack: func(dst, row []byte, o int) { packAffine(dst, row, o, 5) }, unpack: unpackAffine(5)}
	layoutK6 = &layout{name: "k6", formats: []gguf.Type{gguf.Q6_K}, step: 256, bytes: k6Bytes,
		pack: packK6, unpack: unpackK6}
)

// Sizes of a packed sub-block.
const (
	k4Sub = 2*group + nibBytes
	k5Sub = 2*group + nibBytes + bitBytes
	k6Sub = 2*group + nibBytes + pairBytes

	k6Bytes = scaleBytes + 8*k6Sub // of a packed block of 256
)

// affineSub is the size of a packed sub-block of Q4_K or Q5_K.
func affineSub(bits int) int {
	if bits == 5 {
		return k5Sub
	}
	return k4Sub
}

// affineBytes is the size of a packed block of 256.
func affineBytes(bits int) int { return 2*scaleBytes + 8*affineSub(bits) }

// packAffine packs a row of Q4_K (d, dmin, 12 bytes of scales, nibbles) or Q5_K (the same, 32 bytes of fifth bits before the
// nibbles).
func packAffine(dst, row []byte, o, bits int) {
	fileBytes := 16 + 32*bits
	for ; len(row) > 0; row, dst = row[fileBytes:], dst[affineBytes(bits):] {
		copy(dst[2*o:], row[0:2])
		copy(dst[scaleBytes+2*o:], row[2:4])
		scales, fifth, nibbles := row[4:16], row[16:48], row[fileBytes-128:fileBytes]
		for g := range 8 {
			sub := dst[2*scaleBytes+g*affineSub(bits):][:affineSub(bits)]
			sub[o], sub[group+o] = scaleMin(scales, g)
			var q ints32
			for v := range q {
				q[v] = u32At(nibbles[32*(g/2):], v) >> (g % 2 * 4) & 0x0f0f0f0f
				if bits == 5 {
					q[v] |= u32At(fifth, v) >> g & 0x01010101 << 4
				}
			}
			q.put(sub[2*group:], bits, o)
		}
	}
}

// scaleMin unpacks scale and minimum g of the eight 6-bit pairs in 12 bytes.
func scaleMin(s []byte, g int) (scale, minimum byte) {
	if g < 4 {
		return s[g] & 63, s[g+4] & 63
	}
	return s[g+4]&15 | s[g-4]>>6<<4, s[g+4]>>4 | s[g]>>6<<4
}

func unpackAffine(bits int) func([]float32, []byte, int) {
	return func(dst []float32, src []byte, o int) {
		d, dmin := f16At(src, o), f16At(src[scaleBytes:], o)
		for g := range 8 {
			sub := src[2*scaleBytes+g*affineSub(bits):]
			scale, minimum := float32(d*float32(sub[o])), float32(dmin*float32(sub[group+o]))
			for l := range blockLen {
				dst[g*blockLen+l] = float32(scale*float32(getInt(sub[2*group:], bits, o, l))) - minimum
			}
		}
	}
}

// packK6 packs a row of Q6_K: 128 bytes of nibbles, 64 of pairs, 16 int8 scales, d.
func packK6(dst, row []byte, o int) {
	const fileBytes = 210
	for ; len(row) > 0; row, dst = row[fileBytes:], dst[k6Bytes:] {
		copy(dst[2*o:], row[208:210])
		for g := range 8 {
			h, r := g/4, g%4
			sub := dst[scaleBytes+g*k6Sub:][:k6Sub]
			sub[o], sub[group+o] = row[192+2*g], row[192+2*g+1]
			nibbles, pairs := row[64*h+32*(r&1):], row[128+32*h:]
			var q ints32
			for v := range q {
				q[v] = u32At(nibbles, v)>>(r/2*4)&0x0f0f0f0f | u32At(pairs, v)>>(2*r)&0x03030303<<4
			}
			q.put(sub[2*group:], 6, o)
		}
	}
}

func unpackK6(dst []float32, src []byte, o int) {
	d := f16At(src, o)
	for g := range 8 {
		sub := src[scaleBytes+g*k6Sub:]
		for l := range blockLen {
			scale := float32(d * float32(int8(sub[l/16*group+o])))
			dst[g*blockLen+l] = float32(scale * float32(int(getInt(sub[2*group:], 6, o, l))-32))
		}
	}
}

// The layouts of float weights: for each k, the values of 16 outputs.
var (
	layoutF16  = float("f16", gguf.F16, 2)
	layoutBF16 = float("bf16", gguf.BF16, 2)
	layoutF32  = float("f32", gguf.F32, 4)
)

func float(name string, format gguf.Type, size int) *layout {
	return &layout{name: name, formats: []gguf.Type{format}, step: 1, bytes: size * group, float: true,
		pack: func(dst, row []byte, o int) {
			if size == 2 {
				for k := range len(row) / 2 {
					binary.LittleEndian.PutUint16(dst[2*(k*group+o):], binary.LittleEndian.Uint16(row[2*k:]))
				}
				return
			}
			for k := range len(row) / 4 {
				binary.LittleEndian.PutUint32(dst[4*(k*group+o):], u32At(row, k))
			}
		},
		unpack: func(dst []float32, src []byte, o int) { dst[0] = floatAt(src, size, format == gguf.BF16, o) },
	}
}

// floatAt is the i-th value of b.
func floatAt(b []byte, size int, bf16 bool, i int) float32 {
	switch {
	case size == 4:
		return f32At(b, i)
	case bf16:
		return f32bits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	}
	return f16At(b, i)
}
