package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatFormat is a packed layout of float weights: for each k, the values of 16 outputs.
type floatFormat struct {
	name  string
	bytes int // of a value
	widen func(m Mem, to reg.VecVirtual)
}

var floats = []floatFormat{
	{"F16", 2, func(m Mem, to reg.VecVirtual) { VCVTPH2PS(m, to) }},
	{"BF16", 2, func(m Mem, to reg.VecVirtual) {
		VPMOVZXWD(m, to)
		VPSLLD(Imm(16), to, to)
	}},
	{"F32", 4, func(m Mem, to reg.VecVirtual) { VMOVUPS(m, to) }},
}

// parts is how many partial sums an output has: k modulo 4 says which takes a product.
const parts = 4

// float writes the kernel of a float format for so many rows.
func float(set isa, f floatFormat, rows int) {
	k := &kernel{isa: set, rows: rows, columns: set.floatColumns(rows)}
	TEXT(fmt.Sprintf("dot%sx%d%s", f.name, rows, set.name()), NOSPLIT, "func(y *float32, stride int, w *byte, x *float32, k int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("dot%sx%d%s multiplies a group of packed outputs by %d rows: see floatDot.", f.name, rows, set.name(), rows))
	k.y, k.stride = Load(Param("y"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), k.stride)
	k.eachHalf("outputs", func() {
		k.w = Load(Param("w"), GP64())
		x, left := Load(Param("x"), GP64()), Load(Param("k"), GP64())
		row := k.floatRows(x, left)
		var sum [parts]tile
		for i := range sum {
			sum[i] = k.tile()
			k.clear(sum[i])
		}
		step := func(part int) { k.floatStep(f, sum[part], row, part) }

		SUBQ(Imm(parts), left)
		JL(LabelRef("rest"))
		Label("four")
		k.prefetch(parts * group * f.bytes)
		for part := range parts {
			step(part)
		}
		ADDQ(U32(parts*group*f.bytes), k.w)
		ADDQ(Imm(4*parts), x)
		SUBQ(Imm(parts), left)
		JGE(LabelRef("four"))

		Label("rest") // left is 4 less than what is left
		for part := range parts - 1 {
			CMPQ(left, I32(part-parts+1))
			JL(LabelRef("add"))
			step(part)
		}
		Label("add")
		k.acc = sum[0]
		for r := range k.acc {
			for c := range k.acc[r] {
				VADDPS(sum[1][r][c], sum[0][r][c], sum[0][r][c])
				VADDPS(sum[3][r][c], sum[2][r][c], sum[2][r][c])
				VADDPS(sum[2][r][c], sum[0][r][c], sum[0][r][c])
			}
		}
		k.store()
	})
	VZEROUPPER()
	RET()
}

// floatRows gives the operand of the next value of row r, of at most four rows that lie width values apart.
func (k *kernel) floatRows(x, width reg.Register) func(r int) Mem {
	one, three := GP64(), GP64()
	if k.rows > 1 {
		MOVQ(width, one)
	}
	if k.rows > 3 {
		LEAQ(Mem{Base: one, Index: one, Scale: 2}, three)
	}
	return func(r int) Mem {
		return []Mem{{Base: x}, {Base: x, Index: one, Scale: 4}, {Base: x, Index: one, Scale: 8}, {Base: x, Index: three, Scale: 4}}[r]
	}
}

// floatStep adds the products of one k, the part-th from here, to a partial sum.
func (k *kernel) floatStep(f floatFormat, sum tile, row func(r int) Mem, part int) {
	perValue := 2 * f.bytes
	w := make([]reg.VecVirtual, k.columns)
	for c := range w {
		w[c] = k.isa.vector()
		f.widen(k.weight(k.w, part*group*f.bytes, perValue, c), w[c])
	}
	for r := range sum {
		v := k.isa.load(row(r).Offset(4 * part))
		for c := range w {
			p := k.isa.vector()
			k.isa.multiply(v, w[c], p)
			VADDPS(p, sum[r][c], sum[r][c])
		}
	}
}
