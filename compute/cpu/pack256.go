package cpu

import (
	"encoding/binary"
	"math"

	"memra/quant"
)

// The layouts of formats with blocks of 256 and integer scales of their eight sub-blocks of 32. The scales stay integers,
// so a weight keeps its file's size.
//
//	layoutK4   16 d, 16 dmin    8 times: 16 scales, 16 minima, 256 bytes of nibbles            q
//	layoutK5   16 d, 16 dmin    8 times: 16 scales, 16 minima, 256 bytes, 64 of fifth bits     q
//	layoutK6   16 d             8 times: 2 x 16 scales (of 16 k each), 256 bytes, 128 of pairs q+32
//	layoutK2   16 d, 16 dmin    8 times: 2 x 16 scales, 2 x 16 minima, 256 bytes of nibbles    q
//	layoutK8   16 d, float32    8 times: 2 x 16 scales, 512 bytes                              q+128
//
// layoutK8 holds whatever quant.Wide does.
//
// Pairs (fifth and sixth bits): bits 2j and 2j+1 of byte 64*h+4*o+i belong to vector 2j+h.
var (
	layoutK4 = &layout{name: "k4", step: 256, bytes: affineBytes(4),
		pack: func(dst, row []byte, o int) { packAffine(dst, row, o, 4) }, unpack: unpackAffine(4)}
	layoutK5 = &layout{name: "k5", step: 256, bytes: affineBytes(5),
		pack: func(dst, row []byte, o int) { packAffine(dst, row, o, 5) }, unpack: unpackAffine(5)}
	layoutK6 = &layout{name: "k6", step: 256, bytes: k6Bytes,
		pack: packK6, unpack: unpackK6}
	layoutK2 = &layout{name: "k2", step: 256, bytes: k2Bytes, pack: packK2, unpack: unpackK2}
	layoutK8 = &layout{name: "k8", step: 256, bytes: k8Bytes, unpack: unpackK8} // packWide, for any format that is Wide
)

// Sizes of a packed sub-block.
const (
	k4Sub = 2*group + nibBytes
	k5Sub = 2*group + nibBytes + bitBytes
	k6Sub = 2*group + nibBytes + pairBytes

	k2Sub = 4*group + nibBytes
	k8Sub = 2*group + byteBytes

	k6Bytes = scaleBytes + 8*k6Sub // of a packed block of 256
	k2Bytes = 2*scaleBytes + 8*k2Sub
	k8Bytes = 4*group + 8*k8Sub
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

// packK2 packs a row of Q2_K: 16 bytes of scales and minima, 64 of codes of 2 bits, d, dmin.
func packK2(dst, row []byte, o int) {
	const fileBytes = 84
	for ; len(row) > 0; row, dst = row[fileBytes:], dst[k2Bytes:] {
		copy(dst[2*o:], row[80:82])
		copy(dst[scaleBytes+2*o:], row[82:84])
		for g := range 8 {
			sub := dst[2*scaleBytes+g*k2Sub:][:k2Sub]
			for h := range 2 {
				b := row[2*g+h]
				sub[group*h+o], sub[group*(2+h)+o] = b&15, b>>4
			}
			var q ints32
			for v := range q {
				q[v] = u32At(row[16+32*(g/4):], v) >> (g % 4 * 2) & 0x03030303
			}
			q.put(sub[4*group:], 4, o)
		}
	}
}

func unpackK2(dst []float32, src []byte, o int) {
	d, dmin := f16At(src, o), f16At(src[scaleBytes:], o)
	for g := range 8 {
		sub := src[2*scaleBytes+g*k2Sub:]
		for l := range blockLen {
			scale, minimum := float32(d*float32(sub[l/16*group+o])), float32(dmin*float32(sub[(2+l/16)*group+o]))
			dst[g*blockLen+l] = float32(scale*float32(getInt(sub[4*group:], 4, o, l))) - minimum
		}
	}
}

// packWide packs a row of a format that is Wide.
func packWide(f *quant.Format) func(dst, row []byte, o int) {
	return func(dst, row []byte, o int) {
		var w quant.Wide
		for ; len(row) > 0; row, dst = row[f.Bytes:], dst[k8Bytes:] {
			f.Widen(&w, row[:f.Bytes])
			binary.LittleEndian.PutUint32(dst[4*o:], math.Float32bits(w.D))
			for g := range 8 {
				sub := dst[4*group+g*k8Sub:][:k8Sub]
				sub[o], sub[group+o] = byte(w.S[2*g]), byte(w.S[2*g+1])
				var q ints32
				for l, v := range w.Q[g*blockLen:][:blockLen] {
					q[l/4] |= uint32(byte(v)^0x80) << (l % 4 * 8)
				}
				q.put(sub[2*group:], 8, o)
			}
		}
	}
}

func unpackK8(dst []float32, src []byte, o int) {
	d := f32At(src, o)
	for g := range 8 {
		sub := src[4*group+g*k8Sub:]
		for l := range blockLen {
			scale := float32(d * float32(int8(sub[l/16*group+o])))
			dst[g*blockLen+l] = float32(scale * float32(int(getInt(sub[2*group:], 8, o, l))-128))
		}
	}
}
