package cpu

import "encoding/binary"

// The layouts of float weights: for each k, the values of 16 outputs.
var (
	layoutF16  = float("f16", 2, false)
	layoutBF16 = float("bf16", 2, true)
	layoutF32  = float("f32", 4, false)
)

func float(name string, size int, bf16 bool) *layout {
	return &layout{name: name, step: 1, bytes: size * group, float: true,
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
		unpack: func(dst []float32, src []byte, o int) { dst[0] = floatAt(src, size, bf16, o) },
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
