package quant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"memra/gguf"
)

// Format is a way to store rows of numbers as blocks of bytes.
type Format struct {
	Type  gguf.Type
	Name  string // as gguf.Type prints it
	Block int    // values in a block
	Bytes int    // bytes of a block

	// Dequantize decodes whole blocks: len(dst)/Block of them, from exactly as many times Bytes of src. It panics if the
	// lengths do not agree, which is the caller's fault and never a file's.
	Dequantize func(dst []float32, src []byte)

	// Quantize encodes whole blocks, lengths as for Dequantize. The values must be finite: one that is not spoils its
	// block. importance has a weight >= 0 for each value's squared error, or is nil where all count alike; formats without
	// blocks, and Q8_0, round to the nearest in any case. Quantize is nil for a format that is only read.
	Quantize func(dst []byte, src, importance []float32)

	// Widen decodes one block to integers, from which Dequantize makes the values. Nil for a format whose blocks are no Wide.
	Widen func(dst *Wide, src []byte)
}

// encoder encodes one block; importance may be nil.
type encoder = func(dst []byte, src, importance []float32)

var formats = map[gguf.Type]*Format{}

// register adds a format to the table, from the init of the format's own file. decode and encode handle one block of a
// format with blocks, and a run of values of a format without (block size 1); encode may be nil.
func register(t gguf.Type, decode func(dst []float32, src []byte), encode encoder) {
	f := &Format{Type: t, Name: t.String()}
	f.Block, f.Bytes = t.Block()
	f.Dequantize = func(dst []float32, src []byte) {
		values, bytes := f.step(len(dst), len(src))
		for ; len(dst) > 0; dst, src = dst[values:], src[bytes:] {
			decode(dst[:values], src[:bytes])
		}
	}
	if encode != nil {
		f.Quantize = func(dst []byte, src, importance []float32) {
			values, bytes := f.step(len(src), len(dst))
			if importance != nil && len(importance) != len(src) {
				panic(fmt.Sprintf("quant: %s: %d values with %d weights of importance, want as many or none", f.Name, len(src), len(importance)))
			}
			for ; len(src) > 0; dst, src = dst[bytes:], src[values:] {
				var weights []float32
				if importance != nil {
					weights, importance = importance[:values], importance[values:]
				}
				encode(dst[:bytes], src[:values], weights)
			}
		}
	}
	formats[t] = f
}

// step checks a call's lengths and returns how many values and bytes each inner call takes.
func (f *Format) step(values, bytes int) (int, int) {
	if values%f.Block != 0 || bytes != values/f.Block*f.Bytes {
		panic(fmt.Sprintf("quant: %s: %d values with %d bytes, want a multiple of %d values and %d bytes for each",
			f.Name, values, bytes, f.Block, f.Bytes))
	}
	if f.Block == 1 {
		return values, bytes
	}
	return f.Block, f.Bytes
}

// For returns the format of a tensor type. The error lists the supported ones.
func For(t gguf.Type) (*Format, error) {
	f, ok := formats[t]
	if !ok {
		return nil, fmt.Errorf("quant: found the format %s, want one of %s; convert the model to one of these", t, supported())
	}
	return f, nil
}

// RowBytes returns how many bytes a row of n values takes; n must be whole blocks.
func (f *Format) RowBytes(n int) (int, error) {
	if n < 0 || n%f.Block != 0 {
		return 0, fmt.Errorf("quant: %s: found a row of %d values, want a multiple of the block of %d", f.Name, n, f.Block)
	}
	return n / f.Block * f.Bytes, nil
}

// supported lists the formats' names in the order of their ids.
func supported() string {
	var names []string
	for _, t := range slices.Sorted(maps.Keys(formats)) {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}
