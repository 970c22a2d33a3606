// Command vector writes the assembly of everything but the matmuls: vector_amd64.s and its stubs. Package cpu's plain Go says
// what each kernel computes, and the kernels equal it bit for bit, so nothing here fuses a product with a sum and every
// addition stands where the Go has it.
//
// Most kernels are written once and generated twice: an instruction set is a register width, and the few instructions that
// differ. Kernels take pointers and whole numbers of sixteen values; their Go callers (whole_amd64.go) see to the rest.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set.
type isa struct {
	name  string
	lanes int // float32 in a register
	heads int // most query heads that an attention kernel takes at once
	width int // values of a head that it holds
}

var (
	avx512 = isa{name: "AVX512", lanes: 16, heads: 4, width: 64}
	avx2   = isa{name: "AVX2", lanes: 8, heads: 2, width: 32}
)

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, s := range []isa{avx512, avx2} {
		s.sumSquares()
		s.largest()
		s.scale()
		s.add()
		s.quantizeRow()
		s.gate("swiglu", s.silu)
		s.gate("geglu", s.gelu)
		s.bend()
		s.softmax()
		s.addProducts()
		s.openGate()
		s.decay()
		for n := s.heads; n > 0; n-- {
			for _, of := range []stored{half, full} {
				s.scores(n, of)
				s.values(n, of)
			}
			s.addMatrix(n)
		}
	}
	rotateHalves()
	rotateNeighbours()
	halve()
	widen()
	spread()
	pause()
	Generate()
}

// function begins kernel `name` of the instruction set.
func (s isa) function(name, signature string) { TEXT(name+s.name, NOSPLIT, signature) }

// end returns, without leaving the upper halves of registers dirty, which would slow SSE code down.
func end() {
	VZEROUPPER()
	RET()
}

func (s isa) vec() reg.VecVirtual {
	if s.lanes == 16 {
		return ZMM()
	}
	return YMM()
}

func (s isa) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = s.vec()
	}
	return v
}

// bytes is the size of a register.
func (s isa) bytes() int { return 4 * s.lanes }

func (s isa) zero(v reg.VecVirtual) { VXORPS(v, v, v) }

func load(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// place is where a parameter or a result lies.
func place(c gotypes.Component) Mem {
	b, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

// each emits a loop over `count` values, `step` a turn, moving the pointers of float32 along. count is a positive multiple
// of step.
func each(label string, count reg.GPVirtual, step int, body func(), floats ...reg.GPVirtual) {
	Label(label)
	body()
	for _, p := range floats {
		ADDQ(Imm(uint64(4*step)), p)
	}
	SUBQ(Imm(uint64(step)), count)
	JNZ(LabelRef(label))
}

// stride is rows that lie `bytes` apart: an addressing mode for up to four of them from one moving pointer.
type stride struct{ bytes, thrice reg.GPVirtual }

// strideOf begins rows of count values of 1<<shift bytes.
func strideOf(count reg.GPVirtual, shift uint64, rows int) stride {
	bytes := GP64()
	MOVQ(count, bytes)
	SHLQ(Imm(shift), bytes)
	return strideBy(bytes, rows)
}

// strideBy begins rows that lie so many bytes apart.
func strideBy(bytes reg.GPVirtual, rows int) stride {
	s := stride{bytes: bytes}
	if rows == 4 {
		s.thrice = GP64()
		LEAQ(Mem{Base: s.bytes, Index: s.bytes, Scale: 2}, s.thrice)
	}
	return s
}

// row is where value disp/4 of row i lies.
func (s stride) row(base reg.GPVirtual, i, disp int) Mem {
	switch i {
	case 0:
		return at(base, disp)
	case 3:
		return Mem{Base: base, Index: s.thrice, Scale: 1, Disp: disp}
	}
	return Mem{Base: base, Index: s.bytes, Scale: uint8(i), Disp: disp}
}

// pause tells the processor that a thread waits.
func pause() {
	TEXT("pause", NOSPLIT, "func()")
	Doc("pause lets a waiting thread's core rest for some tens of cycles.")
	PAUSE()
	RET()
}
