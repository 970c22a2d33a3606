package cpu

import (
	"encoding/binary"
	"math"
)

// A dotFunc multiplies one group of 16 packed outputs by a tile of rows: y[r*stride+o] for r < rows, o < 16.
//
// This file is the truth for matmul on the CPU. Per output and row, quantised weights are summed over blocks of 32 k,
// ascending, with each operator rounded to float32 once and none fused:
//
//	i   = sum of q*x over the block           exact, in int32
//	acc = acc + (w*d) * float32(i)            w: the weight's scale, d: the activations'
//	acc = acc + m * sd                        m: the weight's minimum, where the format has one; Q4_K and Q5_K: acc - m*sd
//
// with w = d*scale for K-quants (exact in float32). Q2_K, Q6_K and quant.Wide scale each half of a block: i is
// scale0*i0 + scale1*i1, in int32 as well, and w = d; for Q2_K also acc - (dmin*d) * float32(m0*S0 + m1*S1) with the sums S of
// the halves' activations. Float weights are summed in four partial sums, k modulo 4, each ascending, acc = acc + w*x, then added
// (0+1) + (2+3).
type dotFunc func(y []float32, stride int, w []byte, x *rowTile)

// rowTile is up to eight rows of activations: quantised, or as they are.
type rowTile struct {
	rows  int
	first int          // row within the panel
	panel []panelBlock // of all K, for quantised weights
	float []float32    // row r begins at r*k, for float weights
	k     int
}

// vectors are the 512 integers of a block: byte 64*v+4*o+i is output o at k = 4v+i.
type vectors [group * blockLen]uint8

func (v *vectors) unpack(src []byte, bits int) {
	for o := range group {
		for k := range blockLen {
			v[k/4*64+4*o+k%4] = getInt(src, bits, o, k)
		}
	}
}

// dot adds the products with the k in [from, to) of a row to each output's sum.
func (v *vectors) dot(sum *[group]int32, q *[blockLen]int8, from, to int) {
	for k := from; k < to; k++ {
		x, at := int32(q[k]), v[k/4*64+k%4:]
		for o := range group {
			sum[o] += int32(at[4*o]) * x
		}
	}
}

// fill makes every sum x.
func fill(sum *[group]int32, x int32) {
	for o := range sum {
		sum[o] = x
	}
}

func dotQ8(y []float32, stride int, w []byte, x *rowTile) { dotSimple(y, stride, w, x, 8, 0) }
func dotQ4(y []float32, stride int, w []byte, x *rowTile) { dotSimple(y, stride, w, x, 4, 0) }
func dotQ4M(y []float32, stride int, w []byte, x *rowTile) {
	dotSimple(y, stride, w, x, 4, 1)
}
func dotQ5(y []float32, stride int, w []byte, x *rowTile) { dotSimple(y, stride, w, x, 5, 0) }
func dotQ5M(y []float32, stride int, w []byte, x *rowTile) {
	dotSimple(y, stride, w, x, 5, 1)
}

func dotSimple(y []float32, stride int, w []byte, x *rowTile, bits, minima int) {
	bytes := simpleBytes(bits, minima)
	var ints vectors
	var sum [group]int32
	x.clear(y, stride)
	for b := range x.panel {
		block, p := w[b*bytes:][:bytes], &x.panel[b]
		ints.unpack(block[scaleBytes*(1+minima):], bits)
		for r := range x.rows {
			out, row := y[r*stride:][:group], x.first+r
			fill(&sum, 0)
			if minima == 0 {
				fill(&sum, p.neg[row]*int32(zeroPoint(bits)))
			}
			ints.dot(&sum, &p.q[row], 0, blockLen)
			for o := range out {
				out[o] += float32(float32(f16At(block, o)*p.d[row]) * float32(sum[o]))
				if minima == 1 {
					out[o] += float32(f16At(block[scaleBytes:], o) * p.sd[row])
				}
			}
		}
	}
}

func dotK4(y []float32, stride int, w []byte, x *rowTile) { dotAffine(y, stride, w, x, 4) }
func dotK5(y []float32, stride int, w []byte, x *rowTile) { dotAffine(y, stride, w, x, 5) }

func dotAffine(y []float32, stride int, w []byte, x *rowTile, bits int) {
	bytes := affineBytes(bits)
	var ints vectors
	var sum [group]int32
	x.clear(y, stride)
	for b := range x.panel {
		block, p := w[b/8*bytes:][:bytes], &x.panel[b]
		sub := block[2*scaleBytes+b%8*affineSub(bits):]
		ints.unpack(sub[2*group:], bits)
		for r := range x.rows {
			out, row := y[r*stride:][:group], x.first+r
			fill(&sum, 0)
			ints.dot(&sum, &p.q[row], 0, blockLen)
			for o := range out {
				scale := float32(f16At(block, o) * float32(sub[o]))
				minimum := float32(f16At(block[scaleBytes:], o) * float32(sub[group+o]))
				out[o] += float32(float32(scale*p.d[row]) * float32(sum[o]))
				out[o] -= float32(minimum * p.sd[row])
			}
		}
	}
}

func dotK2(y []float32, stride int, w []byte, x *rowTile) {
	dotHalves(y, stride, w, x, halves{bits: 4, head: 2 * scaleBytes, ints: 4 * group, scale: f16At, minima: true})
}
func dotK6(y []float32, stride int, w []byte, x *rowTile) {
	dotHalves(y, stride, w, x, halves{bits: 6, head: scaleBytes, ints: 2 * group, zero: 32, scale: f16At})
}
func dotK8(y []float32, stride int, w []byte, x *rowTile) {
	dotHalves(y, stride, w, x, halves{bits: 8, head: 4 * group, ints: 2 * group, zero: 128, scale: f32At})
}

// halves is a layout of blocks of 256 with an integer scale for each half of a block of 32.
type halves struct {
	bits   int
	head   int // bytes before the sub-blocks
	ints   int // where the integers of a sub-block begin
	zero   int32
	scale  func(b []byte, o int) float32
	minima bool
}

func dotHalves(y []float32, stride int, w []byte, x *rowTile, f halves) {
	subBytes := f.ints + group*blockLen*f.bits/8
	bytes := f.head + 8*subBytes
	var ints vectors
	var lo, hi [group]int32
	x.clear(y, stride)
	for b := range x.panel {
		block, p := w[b/8*bytes:][:bytes], &x.panel[b]
		sub := block[f.head+b%8*subBytes:]
		ints.unpack(sub[f.ints:], f.bits)
		for r := range x.rows {
			out, row := y[r*stride:][:group], x.first+r
			negLo, negHi := p.negLo[row], p.neg[row]-p.negLo[row]
			fill(&lo, negLo*f.zero)
			fill(&hi, negHi*f.zero)
			ints.dot(&lo, &p.q[row], 0, 16)
			ints.dot(&hi, &p.q[row], 16, blockLen)
			for o := range out {
				i := int32(int8(sub[o]))*lo[o] + int32(int8(sub[group+o]))*hi[o] // below 2^27
				out[o] += float32(float32(f.scale(block, o)*p.d[row]) * float32(i))
				if f.minima {
					i := int32(sub[2*group+o])*negLo + int32(sub[3*group+o])*negHi
					out[o] += float32(float32(f.scale(block[scaleBytes:], o)*p.d[row]) * float32(i))
				}
			}
		}
	}
}

func dotF16(y []float32, stride int, w []byte, x *rowTile) {
	dotFloat(y, stride, w, x, 2, false)
}
func dotBF16(y []float32, stride int, w []byte, x *rowTile) {
	dotFloat(y, stride, w, x, 2, true)
}
func dotF32(y []float32, stride int, w []byte, x *rowTile) {
	dotFloat(y, stride, w, x, 4, false)
}

func dotFloat(y []float32, stride int, w []byte, x *rowTile, size int, bf16 bool) {
	for r := range x.rows {
		var part [4][group]float32
		for k, v := range x.float[r*x.k:][:x.k] {
			for o := range group {
				part[k%4][o] += float32(floatAt(w[k*size*group:], size, bf16, o) * v)
			}
		}
		for o := range group {
			y[r*stride+o] = (part[0][o] + part[1][o]) + (part[2][o] + part[3][o])
		}
	}
}

// clear zeroes the tile's outputs.
func (x *rowTile) clear(y []float32, stride int) {
	for r := range x.rows {
		clear(y[r*stride:][:group])
	}
}

func f32At(b []byte, i int) float32 { return f32bits(binary.LittleEndian.Uint32(b[4*i:])) }
func f32bits(u uint32) float32      { return math.Float32frombits(u) }
