package quant

import (
	"encoding/binary"
	"math"

	"memra/gguf"
)

// F64 and the integers have no blocks: value j is so many little-endian bytes, rounded to the nearest float32.
func init() {
	register(gguf.F64, decodeEach(8, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }), nil)
	register(gguf.I8, decodeEach(1, func(b []byte) float32 { return float32(int8(b[0])) }), nil)
	register(gguf.I16, decodeEach(2, func(b []byte) float32 { return float32(int16(binary.LittleEndian.Uint16(b))) }), nil)
	register(gguf.I32, decodeEach(4, func(b []byte) float32 { return float32(int32(binary.LittleEndian.Uint32(b))) }), nil)
	register(gguf.I64, decodeEach(8, func(b []byte) float32 { return float32(int64(binary.LittleEndian.Uint64(b))) }), nil)
}

func decodeEach(size int, value func(b []byte) float32) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		for j := range dst {
			dst[j] = value(src[size*j:])
		}
	}
}
