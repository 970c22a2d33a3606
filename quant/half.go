package quant

import (
	"encoding/binary"
	"math"
)

// F16ToF32 converts an IEEE 754 half, exactly; a NaN becomes a quiet one.
//
//	bit 15   14..10     9..0
//	  sign  exponent  fraction    exponent 0: fraction * 2^-24; 31: infinity or NaN; else (1 + fraction/1024) * 2^(e-15)
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0:
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		if fraction != 0 {
			fraction |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// F32ToF16 converts to the nearest half, to the even one of two; what rounds beyond 65504 becomes an infinity, and a NaN
// a quiet one.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7e00 | uint16(bits>>13&0x1ff)
	case bits >= 0x477ff000: // 65520, halfway between the largest half and the next
		return sign | 0x7c00
	case bits < 0x38800000: // 2^-14: the result is a multiple of 2^-24
		// Adding 0.5 lets the addition do the rounding: a float32 in [0.5, 1) is a multiple of 2^-24.
		sum := math.Float32frombits(bits) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	bits -= (127 - 15) << 23
	return sign | uint16((bits+0xfff+bits>>13&1)>>13)
}

// BF16ToF32 converts a bfloat16, the upper half of a float32, exactly.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 converts to the nearest bfloat16, to the even one of two; a NaN becomes a quiet one.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// half reads the little-endian half at the start of b.
func half(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

// putHalf writes f as a half and returns the value that half reads back.
func putHalf(b []byte, f float32) float32 {
	h := F32ToF16(f)
	binary.LittleEndian.PutUint16(b, h)
	return F16ToF32(h)
}
