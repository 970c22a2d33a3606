package cpu

import (
	"encoding/binary"

	"memra/gguf"
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
	layoutQ8  = simple("q8", gguf.Q8_0, 0, 8)
	layoutQ4  = simple("q4", gguf.Q4_0, 0, 4)
	layoutQ4M = simple("q4m", gguf.Q4_1, 1, 4)
	layoutQ5  = simple("q5", gguf.Q5_0, 0, 5)
	layoutQ5M = simple("q5m", gguf.Q5_1, 1, 5)
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
func simple(name string, format gguf.Type, minima, bits int) *layout {
	head := scaleBytes * (1 + minima) // where the integers begin, packed; 2*(1+minima) in the file
	zero := float32(0)
	if minima == 0 {
		zero = float32(zeroPoint(bits))
	}
	return &layout{name: name, formats: []gguf.Type{format}, step: blockLen, bytes: simpleBytes(bits, minima),
		pack: func(dst []byte, src *sourceRows) {
			clear(dst)
			for o := range group {
				row := src.at(o)
				if row == nil {
					continue
				}
				for i := range 1 + minima {
					copy(dst[scaleBytes*i+2*o:], row[2*i:2*i+2])
				}
				ints := row[2*(1+minima):]
				for j := range blockLen {
					var q byte
					switch bits {
					case 8:
						q = ints[j] ^ 0x80
					case 4:
						q = nibble(ints, j)
					case 5:
						q = nibble(ints[4:], j) | byte(binary.LittleEndian.Uint32(ints)>>j&1)<<4
					}
					putInt(dst[head:], bits, o, j, q)
				}
			}
		},
		unpack: func(dst []float32, src []byte, o int) {
			d, m := f16At(src, o), float32(0)
			if minima == 1 {
				m = f16At(src[scaleBytes:], o)
			}
			for j := range blockLen {
				q := float32(getInt(src[head:], bits, o, j)) - zero
				dst[j] = float32(q * d)
				if minima == 1 {
					dst[j] += m
				}
			}
		},
	}
}

// nibble is value j of a file's 16 bytes: low halves first.
func nibble(b []byte, j int) byte {
	if j < 16 {
		return b[j] & 15
	}
	return b[j-16] >> 4
}

// putInt stores the unsigned integer of output o at k in a block of cleared bytes, of 4, 5, 6 or 8 bits.
func putInt(dst []byte, bits, o, k int, q byte) {
	vector, at := k/4, 4*o+k%4
	if bits == 8 {
		dst[vector*64+at] = q
		return
	}
	dst[vector%4*64+at] |= q & 15 << (vector / 4 * 4)
	switch high := dst[nibBytes:]; bits {
	case 5:
		high[vector*8+at/8] |= q >> 4 & 1 << (at % 8)
	case 6:
		high[vector%2*64+at] |= q >> 4 & 3 << (vector / 2 * 2)
	}
}

// getInt is what putInt stored.
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

// f16At is the i-th float16 of b.
func f16At(b []byte, i int) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b[2*i:])) }
