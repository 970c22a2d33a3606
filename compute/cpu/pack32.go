package cpu

import (
	"encoding/binary"

	"memra/quant"
)

// The layouts of formats with blocks of 32 and float16 scales: 16 scales, 16 minima where the format has them, the
// integers, made unsigned by a zero point.
//
//	          scales   minima   nibbles or bytes   fifth bits
//	layoutQ8   32               512                             q+128
//	layoutQ4   32               256                             q+8
//	layoutQ4M  32       32      256                             q
//	layoutQ5   32               256                64           q+16
//	layoutQ5M  32       32      256                64           q
//
// Fifth bits: bit 4*o+i of the little-endian 64-bit word v belongs to vector v, byte 4*o+i.
var (
	layoutQ8  = simple("q8", 0, 8)
	layoutQ4  = simple("q4", 0, 4)
	layoutQ4M = simple("q4m", 1, 4)
	layoutQ5  = simple("q5", 0, 5)
	layoutQ5M = simple("q5m", 1, 5)
)

const (
	scaleBytes = 2 * group            // 16 float16
	byteBytes  = group * blockLen     // integers of 8 bits
	nibBytes   = group * blockLen / 2 // of 4
	bitBytes   = group * blockLen / 8 // of 1
	pairBytes  = group * blockLen / 4 // of 2
)

// zeroPoint is what the layouts of formats without minima add to make integers unsigned.
func zeroPoint(bits int) int { return 1 << (bits - 1) }

// simpleBytes is the size of a packed block of 32.
func simpleBytes(bits, minima int) int {
	ints := byteBytes
	switch bits {
	case 4:
		ints = nibBytes
	case 5:
		ints = nibBytes + bitBytes
	}
	return scaleBytes*(1+minima) + ints
}

// simple makes the layout of a format with blocks of 32.
func simple(name string, minima, bits int) *layout {
	head := scaleBytes * (1 + minima) // where the integers begin, packed; 2*(1+minima) in the file
	zero := float32(0)
	if minima == 0 {
		zero = float32(zeroPoint(bits))
	}
	return &layout{name: name, step: blockLen, bytes: simpleBytes(bits, minima),
		pack: func(dst, row []byte, o int) {
			fileBytes := 2*(1+minima) + blockLen*bits/8
			for ; len(row) > 0; row, dst = row[fileBytes:], dst[simpleBytes(bits, minima):] {
				for i := range 1 + minima {
					copy(dst[scaleBytes*i+2*o:], row[2*i:2*i+2])
				}
				q := simpleInts(row[2*(1+minima):fileBytes], bits)
				q.put(dst[head:], bits, o)
			}
		},
		unpack: func(dst []float32, src []byte, o int) {
			d, m := f16At(src, o), float32(0)
			if minima == 1 {
				m = f16At(src[scaleBytes:], o)
			}
			var ints [blockLen]byte
			getInts(&ints, src[head:], bits, o)
			for j, q := range ints {
				dst[j] = float32((float32(q) - zero) * d)
				if minima == 1 {
					dst[j] += m
				}
			}
		},
	}
}

// simpleInts reads the integers of a file's block of 32: bytes, or nibbles with the low halves first, after 32 fifth bits where
// there are such.
func simpleInts(b []byte, bits int) (q ints32) {
	if bits == 8 {
		for v := range q {
			q[v] = u32At(b, v) ^ 0x80808080
		}
		return q
	}
	nibbles := b[len(b)-16:]
	for v := range 4 {
		w := u32At(nibbles, v)
		q[v], q[v+4] = w&0x0f0f0f0f, w>>4&0x0f0f0f0f
	}
	if bits == 5 {
		fifth := u32At(b, 0)
		for v := range q {
			q[v] |= fifth >> (4 * v) & 15 * 0x00204081 & 0x01010101 << 4 // bit i goes to bit 0 of byte i
		}
	}
	return q
}

// ints32 are 32 unsigned integers of one output, four to a word: byte i of word v is the integer at k = 4v+i.
type ints32 [blockLen / 4]uint32

// put stores the integers of output o, of 4, 5, 6 or 8 bits, in a block that holds zeros for it.
func (q *ints32) put(dst []byte, bits, o int) {
	word := binary.LittleEndian.PutUint32
	if bits == 8 {
		for v, w := range q {
			word(dst[64*v+4*o:], w)
		}
		return
	}
	const low = 0x0f0f0f0f
	for v := range 4 {
		word(dst[64*v+4*o:], q[v]&low|q[v+4]&low<<4)
	}
	switch high := dst[nibBytes:]; bits {
	case 5:
		for v, w := range q {
			nibble := w >> 4 & 0x01010101 * 0x10204080 >> 28 // bit 0 of byte i goes to bit i
			high[8*v+o/2] |= byte(nibble << (o % 2 * 4))
		}
	case 6:
		const pair = 0x03030303
		for v := range 2 {
			word(high[64*v+4*o:], q[v]>>4&pair|q[v+2]>>4&pair<<2|q[v+4]>>4&pair<<4|q[v+6]>>4&pair<<6)
		}
	}
}

// getInt is the integer at k that ints32.put stored for output o.
func getInt(src []byte, bits, o, k int) byte {
	vector, at := k/4, 4*o+k%4
	if bits == 8 {
		return src[vector*64+at]
	}
	q := src[vector%4*64+at] >> (vector / 4 * 4) & 15
	switch high := src[nibBytes:]; bits {
	case 5:
		q |= high[vector*8+at/8] >> (at % 8) & 1 << 4
	case 6:
		q |= high[vector%2*64+at] >> (vector / 2 * 2) & 3 << 4
	}
	return q
}

// getInts reads all integers of output o.
func getInts(q *[blockLen]byte, src []byte, bits, o int) {
	if bits == 8 {
		for v := range blockLen / 4 {
			copy(q[4*v:][:4], src[64*v+4*o:][:4])
		}
		return
	}
	for k := range q {
		q[k] = getInt(src, bits, o, k)
	}
}

// f16At is the i-th float16 of b.
func f16At(b []byte, i int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b[2*i:])) }

// u32At is the i-th word of b.
func u32At(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
