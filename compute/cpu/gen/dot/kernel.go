package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is what differs between instruction sets.
type isa interface {
	name() string
	tiles(f format) []int           // rows of the kernels of quantised weights
	floatTiles() []int              // and of float ones
	lanes() int                     // outputs in a register
	columns(f format, rows int) int // registers of outputs at a time
	floatColumns(rows int) int
	vector() reg.VecVirtual
	constants()               // that lie in memory
	begin(f format, rows int) // fills the registers that hold a constant
	sums(k *kernel) tile      // the integer sums of a block, times the halves' scales where they have such
	load(m Mem) Op            // a value from memory for every lane, as an operand of multiply
	multiply(a Op, b, to reg.VecVirtual)
}

// tile is one register for each row and column of outputs.
type tile [][]reg.VecVirtual

func (k *kernel) tile() tile {
	t := make(tile, k.rows)
	for r := range t {
		for range k.columns {
			t[r] = append(t[r], k.isa.vector())
		}
	}
	return t
}

// kernel is a kernel being written. It computes `columns` registers of outputs at a time: all sixteen outputs, or one half,
// in which case it runs for each half in turn.
type kernel struct {
	isa           isa
	format        format
	rows, columns int

	y, stride reg.Register
	w, head   reg.Register // the block or sub-block; the float16 scales
	q, d      reg.Register // of the tile's first row, in the panel's current block
	half      reg.Register // 0 or 4: bytes before this half of the outputs, were each half a byte; nil: both at once
	acc       tile
}

// Half bytes that one output has of a vector.
const (
	perFloat   = 8
	perFloat16 = 4 // scales
	perByte    = 2 // sub-blocks' scales
	perInts    = 8 // four integers
	perBits    = 1 // four bits
)

// weight is the part of a vector at base+offset that holds a column's outputs. Where halves take turns,
// the address scales k.half by what an output has.
func (k *kernel) weight(base reg.Register, offset, halfBytes, column int) Mem {
	m := Mem{Base: base, Disp: offset + column*k.isa.lanes()*halfBytes/2}
	if k.half != nil {
		m.Index, m.Scale = k.half, uint8(halfBytes)
	}
	return m
}

// ints is vector v of 64 bytes of integers, at an offset from their beginning.
func (k *kernel) ints(offset, v, column int) Mem {
	return k.weight(k.w, k.format.ints()+offset+64*v, perInts, column)
}

// panel is a number of row r in the panel's block.
func (k *kernel) panel(offset, r int) Mem { return Mem{Base: k.d, Disp: offset - panelD + 4*r} }

// activations is the four values that vector v of weights meets.
func (k *kernel) activations(r, v int) Mem { return Mem{Base: k.q, Disp: panelRowQ*r + 4*v} }

// quantised writes the kernel of a format for so many rows.
func quantised(set isa, f format, rows int) {
	k := &kernel{isa: set, format: f, rows: rows, columns: set.columns(f, rows)}
	TEXT(fmt.Sprintf("dot%sx%d%s", f.name, rows, set.name()), NOSPLIT, "func(y *float32, stride int, w *byte, q *int8, d *float32, blocks int)")
	Pragma("noescape")
	Doc(fmt.Sprintf("dot%sx%d%s multiplies a group of packed outputs by %d rows: see quantisedDot.", f.name, rows, set.name(), rows))
	set.begin(f, rows)
	k.y, k.stride = Load(Param("y"), GP64()), Load(Param("stride"), GP64())
	SHLQ(Imm(2), k.stride)
	k.eachHalf("outputs", func() {
		k.w, k.q, k.d = Load(Param("w"), GP64()), Load(Param("q"), GP64()), Load(Param("d"), GP64())
		k.acc = k.tile()
		k.clear(k.acc)
		blocks := Load(Param("blocks"), GP64())
		Label("block")
		if f.nested {
			k.head = GP64()
			MOVQ(k.w, k.head)
			ADDQ(Imm(uint64(f.head())), k.w)
			sub := GP64()
			MOVQ(U32(8), sub)
			Label("sub")
			k.block()
			DECQ(sub)
			JNZ(LabelRef("sub"))
			SUBQ(Imm(8), blocks)
		} else {
			k.head = k.w
			k.block()
			DECQ(blocks)
		}
		JNZ(LabelRef("block"))
		k.store()
	})
	VZEROUPPER()
	RET()
}

// eachHalf runs code once where all outputs have registers, else twice, with k.half = 0 and 4.
func (k *kernel) eachHalf(label string, code func()) {
	if k.columns*k.isa.lanes() == group {
		code()
		return
	}
	k.half = GP64()
	XORQ(k.half, k.half)
	Label(label)
	code()
	ADDQ(Imm(4), k.half)
	CMPQ(k.half, Imm(8))
	JNE(LabelRef(label))
}

func (k *kernel) clear(t tile) {
	for r := range t {
		for c := range t[r] {
			zero := t[r][c].AsX()
			VXORPS(zero, zero, zero)
		}
	}
}

// block adds the products of a block of 32 to the accumulators, and moves to the next.
func (k *kernel) block() {
	f := k.format
	k.prefetch(f.bytes())
	sum := k.isa.sums(k)
	scale := k.scales(0)
	for r := range sum {
		d := k.isa.load(k.panel(panelD, r))
		for c, i := range sum[r] {
			VCVTDQ2PS(i, i)
			s := k.isa.vector()
			k.isa.multiply(d, scale[c], s)
			VMULPS(s, i, i)
			VADDPS(i, k.acc[r][c], k.acc[r][c])
		}
	}
	if f.minima && f.halves {
		k.halfMinima()
	} else if f.minima {
		minimum := k.scales(1)
		for r := range sum {
			sd := k.isa.load(k.panel(panelSD, r))
			for c := range sum[r] {
				m := k.isa.vector()
				k.isa.multiply(sd, minimum[c], m)
				if f.nested {
					VSUBPS(m, k.acc[r][c], k.acc[r][c])
				} else {
					VADDPS(m, k.acc[r][c], k.acc[r][c])
				}
			}
		}
	}
	ADDQ(U32(f.bytes()), k.w)
	ADDQ(U32(panelBytes), k.q)
	ADDQ(U32(panelBytes), k.d)
}

// halfMinima adds what the minima of each half of a block subtract: with S the sums of the activations' integers over the halves,
// m0*S0 + m1*S1, in integers, times both float scales. The panel has -(S0+S1) and -S0.
func (k *kernel) halfMinima() {
	minimum := k.scales(1)
	for c := range minimum {
		lo, all := k.isa.vector(), k.isa.vector()
		VPMOVZXBD(k.weight(k.w, 2*group, perByte, c), lo)
		VPMOVZXBD(k.weight(k.w, 3*group, perByte, c), all)
		VPSUBD(all, lo, lo)
		for r := range k.acc {
			sum, x := k.isa.vector(), k.isa.vector()
			VPBROADCASTD(k.panel(panelNegLo, r), sum)
			VPMULLD(lo, sum, sum)
			VPBROADCASTD(k.panel(panelNeg, r), x)
			VPMULLD(all, x, x)
			VPADDD(x, sum, sum)
			VCVTDQ2PS(sum, sum)
			m := k.isa.vector()
			k.isa.multiply(k.isa.load(k.panel(panelD, r)), minimum[c], m)
			VMULPS(sum, m, m)
			VADDPS(m, k.acc[r][c], k.acc[r][c])
		}
	}
}

// ahead is how far before their use weights are asked of memory.
const ahead = 4096

// prefetch asks for the weights that follow the next n bytes by a distance.
func (k *kernel) prefetch(n int) {
	for at := 0; at < n; at += 64 {
		PREFETCHT0(Mem{Base: k.w, Disp: ahead + at})
	}
}

// scales are the weights' scales (which = 0) or minima (1) in float32.
func (k *kernel) scales(which int) (s []reg.VecVirtual) {
	for c := range k.columns {
		v := k.isa.vector()
		if k.format.wide {
			VMOVUPS(k.weight(k.head, 0, perFloat, c), v)
		} else {
			VCVTPH2PS(k.weight(k.head, scaleBytes*which, perFloat16, c), v)
		}
		if k.format.nested && !k.format.halves {
			n := k.isa.vector()
			VPMOVZXBD(k.weight(k.w, group*which, perByte, c), n)
			VCVTDQ2PS(n, n)
			VMULPS(n, v, v)
		}
		s = append(s, v)
	}
	return s
}

// store writes the accumulators to y.
func (k *kernel) store() {
	y := GP64()
	MOVQ(k.y, y)
	for r := range k.acc {
		for c := range k.acc[r] {
			VMOVUPS(k.acc[r][c], k.weight(y, 0, perFloat, c))
		}
		if r < k.rows-1 {
			ADDQ(k.stride, y)
		}
	}
}
