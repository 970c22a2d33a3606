package cuda

import (
	"errors"
	"fmt"

	"memra/compute"
	"memra/gguf"
)

// layoutMX4 is what experts in MXFP4 are kept as (kernels/experts_layouts.cuh). Other weights in MXFP4 are f16: gpt-oss has none.
var layoutMX4 = &layout{name: "mx4", bytes: layoutQ4.bytes}

// bank is experts' matrices on the device, one expert after another.
type bank struct {
	packed  // of one expert, at the first's place
	experts int
}

// PackExperts packs each expert's matrix as Pack does, but for float32, which must fit f16, and MXFP4, which keeps its codes. It is
// safe to call side by side.
func (d *Device) PackExperts(format gguf.Type, experts, rows, width int, expert func(e int) ([]byte, func(), error)) (compute.Weight, error) {
	var b *bank
	var src source
	for e := range experts {
		data, done, err := expert(e)
		if err == nil && b == nil {
			b, src, err = d.newBank(format, experts, rows, width, data)
		}
		if err == nil && format == gguf.F32 && !fitsHalf(data, rows, width) {
			err = errors.New("cuda: float32 that f16 does not hold; convert to F16, BF16 or a quantised format")
		}
		if err == nil {
			one := b.packed
			one.data += pointer(e * one.tileBytes())
			one.scales += pointer(e * 4 * rows)
			err = d.fill(&one, src, data, nil)
		}
		if err != nil {
			return compute.Weight{}, fmt.Errorf("expert %d: %w", e, err)
		}
		if done != nil {
			done()
		}
	}
	if b == nil {
		return compute.Weight{}, errors.New("cuda: a weight of no experts")
	}
	return compute.Weight{Experts: experts, Rows: rows, Width: width, Format: format.String(), Bytes: experts * (b.tileBytes() + 4*rows), Mem: b}, nil
}

// newBank makes room for experts like the one whose data is given.
func (d *Device) newBank(format gguf.Type, experts, rows, width int, data []byte) (*bank, source, error) {
	src, err := sourceOf(format, rows, width, data)
	if err != nil {
		return nil, src, err
	}
	if format == gguf.MXFP4 {
		src.name, src.layout, src.direct, src.rowBytes = "mxfp4", layoutMX4, true, src.fileBytes
	}
	b := &bank{packed{layout: src.layout, n: rows, k: width}, experts}
	b.data, b.scales, err = d.room(experts*b.tileBytes(), experts*4*rows, "%v weight [%d %d %d]", format, experts, rows, width)
	return b, src, err
}

// crowd is rows sorted by expert, on the device: kernels/router.cu states it.
type crowd struct {
	work, place, from pointer
	pieces            int // of work, at most
	rows              int // of a piece, at most
}

// The heights of pieces of work: few rows an expert read weights at the speed of memory, many share what is dequantised.
const (
	fewPlaces  = 8
	manyPlaces = 64
)

// sort sorts the rows by their experts. A step whose experts have few rows each, in the mean, has small pieces; bits are the same.
func (s *step) sort(r compute.Routes, experts int) crowd {
	pairs := r.Rows * r.Chosen
	c := crowd{rows: fewPlaces}
	if pairs > 2*fewPlaces*experts {
		c.rows = manyPlaces
	}
	c.pieces = min(pairs, experts+pairs/c.rows)
	c.work, c.place, c.from = s.take(s.at, 16*(1+c.pieces)), s.take(s.at, 4*pairs), s.take(s.at, 4*pairs)
	s.launch("sort_routes", shape{grid: grid(1, 1), block: 1024},
		c.work.arg(), c.place.arg(), c.from.arg(), s.routes(r).experts.arg(), i32(pairs), i32(r.Chosen), i32(experts), i32(c.rows))
	return c
}

// shape is what kernels/experts.cuh wants: split, stages, Stage.
func (c *crowd) shape(outputs int, l *layout) shape {
	split, stages := 1, 4
	if c.rows == fewPlaces {
		switch {
		case l.bytes <= layoutQ5.bytes:
			split, stages = 4, 3
		case l.bytes <= layoutQ8.bytes:
			split = 2
		}
	}
	sums := 0
	if split > 1 {
		sums = split * 4096
	}
	return shape{grid: grid(outputs, c.pieces), block: 128 * split, shared: split*stages*(2*l.bytes+128*c.rows) + sums}
}

// Experts: see compute.Ops. Everything that depends on what rows have chosen is decided on the device.
func (s *step) Experts(x compute.Tensor, r compute.Routes, e compute.Experts, shared compute.Shared) compute.Tensor {
	gate, up, down := e.Gate.Mem.(*bank), e.Up.Mem.(*bank), e.Down.Mem.(*bank)
	y, out := s.newRows(x.Rows, down.n)
	if gate.layout != up.layout {
		s.fail(fmt.Errorf("cuda: experts' gates in %s and ups in %s, want one format", e.Gate.Format, e.Up.Format))
	}
	if gate.experts > maxExperts {
		s.fail(fmt.Errorf("cuda: %d experts, want at most %d", gate.experts, maxExperts))
	}
	if s.target != "sm_90a" {
		s.fail(fmt.Errorf("cuda: experts are computed on Hopper alone, this GPU runs %s; take --device cpu", s.target))
	}
	s.even(x.Width)
	s.even(gate.n)
	s.even(down.n)
	if s.err != nil || x.Rows == 0 {
		return y
	}
	in, c, pairs := s.asOperand(x), s.sort(r, gate.experts), r.Rows*r.Chosen
	hidden := s.buffer(buffer{home: s.at, tile: 8, scale: gateScale})
	hidden.operand = s.take(s.at, 2*roundUp(pairs, hidden.tile)*paddedK(gate.n))
	s.experts(gate, up, c, c.shape(ceilDiv(gate.n, tileK), gate.layout), e.Gate.Bias, e.Up.Bias, in.operand.arg(), c.work.arg(), c.from.arg(),
		i32(gate.n), i32(gate.ktiles()), i32(in.tile), f32(1/in.scale), flag(true), hidden.operand.arg(), i32(e.Gating), f32(e.Limit), f32(hidden.scale), pointer(0).arg())
	products := s.take(s.at, 4*pairs*down.n)
	s.experts(down, down, c, c.shape(ceilDiv(down.n, 2*tileK), down.layout), e.Down.Bias, e.Down.Bias, hidden.operand.arg(), c.work.arg(), pointer(0).arg(),
		i32(down.n), i32(down.ktiles()), i32(hidden.tile), f32(1/hidden.scale), flag(false), pointer(0).arg(), i32(0), f32(0), f32(0), products.arg())
	var beside, open pointer
	if !shared.Out.IsZero() {
		beside = s.asRows(shared.Out)
	}
	if !shared.Gate.IsZero() {
		open = s.asRows(shared.Gate)
	}
	s.launch("experts_add", shape{grid: grid(ceilDiv(down.n, 1024), x.Rows), block: 256},
		out.rows.arg(), products.arg(), c.place.arg(), s.routes(r).weights.arg(), beside.arg(), open.arg(), i32(down.n), i32(r.Chosen))
	return y
}

// experts launches the matmuls of two banks, or of one with itself.
func (s *step) experts(first, second *bank, c crowd, sh shape, firstBias, secondBias compute.Vector, rest ...arg) {
	args := []arg{first.data.arg(), first.scales.arg(), addressOf(firstBias).arg(), second.data.arg(), second.scales.arg(), addressOf(secondBias).arg()}
	s.launch(fmt.Sprintf("experts_%s_%d", first.layout.name, c.rows), sh, append(args, rest...)...)
}

// addressOf is a vector's place; null: there is none.
func addressOf(v compute.Vector) pointer {
	if v.IsZero() {
		return 0
	}
	return v.Mem.(*vector).at
}
