package cuda

import (
	"slices"
	"strings"
)

// sideBySide has matmuls of one operand whose weights have different layouts computed at the same time, each by some of the blocks: one after the other
// each would begin anew, and of few outputs most blocks would have one strip, which takes as long as two.
func (p *draft) sideBySide() {
	for i := 0; i < len(p.list); {
		n := 1
		for p.parted(i) && i+n < len(p.list) && p.parted(i+n) && p.list[i+n].phase == p.list[i].phase && p.list[i+n].operand() == p.list[i].operand() {
			n++
		}
		if run := p.list[i : i+n]; n > 1 {
			first := 0
			for j, blocks := range p.parts(run) {
				p.cut(&run[j], gatesNothing, first, blocks)
				first += blocks
			}
		}
		i += n
	}
}

// parted reports whether some blocks may compute an instruction for all.
func (p *draft) parted(i int) bool {
	in := &p.list[i]
	return programLayout(in) != nil && in.gates() == gatesNothing
}

// programLayout is the layout of a matmul's weights; nil: it is none.
func programLayout(in *instruction) *layout {
	name, ok := strings.CutPrefix(operations[in.operation].name, "matmul_")
	if i := slices.IndexFunc(programLayouts, func(l *layout) bool { return l.name == name }); ok && i >= 0 {
		return programLayouts[i]
	}
	return nil
}

// parts is how many blocks each of some matmuls has, so that the one that takes longest takes as short as can be; none: it is better if all blocks compute
// one after the other.
func (p *draft) parts(run []instruction) []int {
	together := 1 // strips that a warp multiplies at a time: TOGETHER of kernels/strips.cuh
	if p.tile == 8 {
		together = 2
	}
	one := func(k int) int { return together * programLayout(&run[k]).bytes } // what a block's strips take that are multiplied at a time
	var times []int
	alone := 0
	for k := range run {
		whole := ceilDiv(run[k].strips(), together)
		alone += ceilDiv(whole, p.blocks) * one(k)
		for n := 1; n <= whole; n++ {
			times = append(times, n*one(k))
		}
	}
	slices.Sort(times)
	for _, t := range slices.Compact(times) {
		var blocks []int
		left := p.blocks
		for k := range run {
			each := t / one(k) * together
			if each == 0 {
				break
			}
			blocks = append(blocks, ceilDiv(run[k].strips(), each))
			left -= blocks[k]
		}
		if t > alone {
			return nil
		}
		if len(blocks) == len(run) && left >= 0 {
			return blocks
		}
	}
	return nil
}
