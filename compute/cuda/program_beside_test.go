package cuda

import (
	"slices"
	"testing"
)

// multiplies is a matmul of a program as draft.add leaves it.
func multiplies(p *draft, layout string, outputs, ktiles int) (in instruction) {
	in.operation = int16(slices.IndexFunc(operations, func(o operation) bool { return o.name == "matmul_"+layout }))
	in.args[3], in.args[matmulOperand], in.args[matmulTiles], in.args[matmulRows] = uint64(outputs), leastAddress, uint64(ktiles), 1
	p.cut(&in, gatesNothing, 0, p.blocks)
	return in
}

func TestProductsOfOneOperandAreComputedSideBySide(t *testing.T) {
	type weight struct {
		layout  string
		outputs int
	}
	for _, c := range []struct {
		name    string
		tile    int
		weights []weight
		want    []int // blocks of each; none: all blocks compute one after the other
	}{
		{"one layout", 8, []weight{{"q4m", 6144}}, nil},
		// 320 and 64 strips: four of a block and two; one after the other four, and two of which one is nobody's
		{"q, k and v of Llama-3.1-8B", 8, []weight{{"q4m", 5120}, {"q6", 1024}}, []int{80, 32}},
		{"the same of 16 rows", 16, []weight{{"q4m", 5120}, {"q6", 1024}}, []int{80, 32}},
		{"three layouts", 8, []weight{{"q8", 1024}, {"q6", 1024}, {"f16", 1024}}, []int{32, 16, 32}},
		{"both of many outputs", 8, []weight{{"q4m", 132 * 16 * 8}, {"q6", 132 * 16 * 8}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &draft{blocks: 132, tile: c.tile}
			for _, w := range c.weights {
				p.list = append(p.list, multiplies(p, w.layout, w.outputs, 64))
			}
			p.sideBySide()
			first := 0
			for i, in := range p.list {
				at, blocks := int(in.y>>8&0xfff), int(uint32(in.y)>>20)
				switch {
				case c.want == nil && (at != 0 || blocks != p.blocks):
					t.Errorf("weight %d is %d blocks' from %d on, want all", i, blocks, at)
				case c.want != nil && (at != first || blocks != c.want[i]):
					t.Errorf("weight %d is %d blocks' from %d on, want %d from %d on", i, blocks, at, c.want[i], first)
				}
				if first += blocks; c.want != nil && first > p.blocks {
					t.Errorf("%d blocks, want at most %d", first, p.blocks)
				}
				if share, more := int(in.x)&0xffff, int(in.x)>>16; share*blocks+more != in.strips() || more >= blocks {
					t.Errorf("%d strips of %d blocks: %d each, and %d of them one more", in.strips(), blocks, share, more)
				}
			}
		})
	}
}
