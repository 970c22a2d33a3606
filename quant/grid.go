package quant

import _ "embed"

// The IQ formats of 1 to 3 bits store groups of eight or four values as the number of an entry in a table: the shapes that
// such groups take most often. The tables were found by clustering weights, so nothing generates them; but an entry is a
// number in base 3 or 8, entries stand in the order of their numbers, and a bitmap of the numbers that are there is the whole
// table. tools/oracle/quant.py writes grids.bin from the gguf package.
//
//go:embed grids.bin
var gridBits []byte

// grid is a table of groups of values.
type grid struct {
	width  int
	values []int8 // entry i at i*width
}

// The tables, in the order of grids.bin.
var (
	gridIQ1     = nextGrid(8, -1, 0, 1)
	gridIQ2_XXS = nextGrid(8, 8, 25, 43)
	gridIQ2_XS  = nextGrid(8, 8, 25, 43)
	gridIQ2_S   = nextGrid(8, 8, 25, 43)
	gridIQ3_XXS = nextGrid(4, 4, 12, 20, 28, 36, 44, 52, 62)
	gridIQ3_S   = nextGrid(4, 1, 3, 5, 7, 9, 11, 13, 15)
)

// nextGrid reads a table off the front of gridBits. The lowest digit of an entry's number says which of the levels its first
// value has.
func nextGrid(width int, levels ...int8) *grid {
	g, numbers := &grid{width: width}, 1
	for range width {
		numbers *= len(levels)
	}
	for n := range numbers {
		if gridBits[n/8]>>(n%8)&1 == 0 {
			continue
		}
		for range width {
			g.values = append(g.values, levels[n%len(levels)])
			n /= len(levels)
		}
	}
	gridBits = gridBits[(numbers+7)/8:]
	return g
}

// put writes entry i, with minus where a bit of signs is set.
func (g *grid) put(dst []int8, i int, signs byte) {
	for k, v := range g.values[i*g.width:][:g.width] {
		if signs>>k&1 != 0 {
			v = -v
		}
		dst[k] = v
	}
}

// evenSigns completes seven sign bits by the eighth that makes their number even.
func evenSigns(seven uint32) byte {
	s := byte(seven & 127)
	p := s ^ s>>4
	p ^= p >> 2
	p ^= p >> 1
	return s | p<<7
}
