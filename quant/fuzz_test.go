package quant

import (
	"maps"
	"slices"
	"testing"

	"memra/internal/bounded"
)

// Every sequence of bytes is a block of every format: nothing may panic, and integers must decode as the values do.
func FuzzDequantize(f *testing.F) {
	ids := slices.Sorted(maps.Keys(formats))
	for i, id := range ids {
		f.Add(byte(i), make([]byte, formats[id].Bytes))
		f.Add(byte(i), slices.Repeat([]byte{0xff, 0x7c, 0x80, 0x01}, formats[id].Bytes)) // four blocks of NaN, infinities and large codes
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		format := formats[ids[int(which)%len(ids)]]
		blocks := len(data) / format.Bytes
		values, widened := make([]float32, blocks*format.Block), make([]float32, format.Block)
		bounded.Read(t, len(data), func() { format.Dequantize(values, data[:blocks*format.Bytes]) })
		for b := range blocks {
			if format.Widen == nil {
				return
			}
			var w Wide
			format.Widen(&w, data[b*format.Bytes:][:format.Bytes])
			w.decode(widened)
			for i, v := range widened {
				if !same(v, values[b*format.Block+i]) {
					t.Fatalf("%s: block %d value %d: found %v, want %v", format.Name, b, i, v, values[b*format.Block+i])
				}
			}
		}
	})
}
