package quant

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"memra/gguf"
)

// scalesAt says where a format keeps its f16 scales, as tools/oracle/quant.py does.
var scalesAt = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0}, gguf.Q8_1: {0, 2}, gguf.Q1_0: {0}, gguf.Q2_0: {0},
	gguf.Q2_K: {80, 82}, gguf.Q3_K: {108}, gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
	gguf.IQ1_S: {0}, gguf.IQ2_XXS: {0}, gguf.IQ2_XS: {0}, gguf.IQ2_S: {0}, gguf.IQ3_XXS: {0}, gguf.IQ3_S: {0},
	gguf.IQ4_NL: {0}, gguf.IQ4_XS: {0}, gguf.TQ1_0: {52}, gguf.TQ2_0: {64},
}

// putScale sets a block's scales to pattern p of bits: the first to p, a second to another that goes through all as well.
func putScale(block []byte, format gguf.Type, p uint16) {
	switch format {
	case gguf.IQ1_M: // four nibbles
		for i := range 4 {
			block[49+2*i] = block[49+2*i]&15 | byte(p>>(4*i))<<4
		}
	case gguf.MXFP4:
		block[0] = byte(p)
	case gguf.NVFP4:
		for g := range 4 {
			block[g] = byte(p)
		}
	default:
		for k, at := range scalesAt[format] {
			binary.LittleEndian.PutUint16(block[at:], p^uint16(0x5a5a*k))
		}
	}
}

func TestABlockUnderEveryPatternOfItsScaleEqualsTheOracle(t *testing.T) {
	for line := range strings.Lines(string(read(t, "scales.sums"))) {
		var want, name string
		if _, err := fmt.Sscan(line, &want, &name); err != nil {
			t.Fatal(err)
		}
		var f *Format
		for _, g := range formats {
			if g.Name == name {
				f = g
			}
		}
		if f == nil {
			t.Errorf("%s: no format has this name", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks := read(t, name+".blocks")
			block := blocks[len(blocks)-f.Bytes:]
			patterns := 1 << 16
			if f.Type == gguf.MXFP4 || f.Type == gguf.NVFP4 {
				patterns = 1 << 8
			}
			digest := sha256.New()
			values, bytes := make([]float32, f.Block), make([]byte, 4*f.Block)
			for p := range patterns {
				putScale(block, f.Type, uint16(p))
				f.Dequantize(values, block)
				for i, v := range values {
					bits := math.Float32bits(v)
					if v != v {
						bits = 0x7fc00000
					}
					binary.LittleEndian.PutUint32(bytes[4*i:], bits)
				}
				digest.Write(bytes)
			}
			if got := fmt.Sprintf("%x", digest.Sum(nil)); got != want {
				t.Errorf("found the hash %s, want %s", got, want)
			}
		})
	}
}

// The tables of the IQ formats, as the little-endian words that llama.cpp's sources print.
func TestTablesHaveTheRightChecksums(t *testing.T) {
	for _, c := range []struct {
		name    string
		grid    *grid
		entries int
		crc     uint32
	}{
		{"IQ1", gridIQ1, 2048, 0xb85e6ccf},
		{"IQ2_XXS", gridIQ2_XXS, 256, 0x9924ff02},
		{"IQ2_XS", gridIQ2_XS, 512, 0xfa1e1bfd},
		{"IQ2_S", gridIQ2_S, 1024, 0x25ae5bf1},
		{"IQ3_XXS", gridIQ3_XXS, 256, 0x07ba9ed0},
		{"IQ3_S", gridIQ3_S, 512, 0xf576e4f3},
	} {
		bytes := make([]byte, len(c.grid.values))
		for i, v := range c.grid.values {
			bytes[i] = byte(v)
		}
		if n, crc := len(bytes)/c.grid.width, crc32.ChecksumIEEE(bytes); n != c.entries || crc != c.crc {
			t.Errorf("%s: found %d entries with the checksum %08x, want %d with %08x", c.name, n, crc, c.entries, c.crc)
		}
	}
	if len(gridBits) != 0 {
		t.Errorf("%d bytes of grids.bin are left over", len(gridBits))
	}
}
