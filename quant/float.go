package quant

import (
	"encoding/binary"
	"math"

	"memra/gguf"
)

// F32, F16 and BF16 have no blocks: value j is the 4, 2 and 2 little-endian bytes at 4j, 2j and 2j.
func init() {
	register(gguf.F32, decodeF32, encodeF32)
	register(gguf.F16, decodeF16, encodeF16)
	register(gguf.BF16, decodeBF16, encodeBF16)
}

func decodeF32(dst []float32, src []byte) {
	for j := range dst {
		dst[j] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*j:]))
	}
}

func encodeF32(dst []byte, src, _ []float32) {
	for j, x := range src {
		binary.LittleEndian.PutUint32(dst[4*j:], math.Float32bits(x))
	}
}

func decodeF16(dst []float32, src []byte) {
	for j := range dst {
		dst[j] = half(src[2*j:])
	}
}

func encodeF16(dst []byte, src, _ []float32) {
	for j, x := range src {
		binary.LittleEndian.PutUint16(dst[2*j:], F32ToF16(x))
	}
}

func decodeBF16(dst []float32, src []byte) {
	for j := range dst {
		dst[j] = BF16ToF32(binary.LittleEndian.Uint16(src[2*j:]))
	}
}

func encodeBF16(dst []byte, src, _ []float32) {
	for j, x := range src {
		binary.LittleEndian.PutUint16(dst[2*j:], F32ToBF16(x))
	}
}
