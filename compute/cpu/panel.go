package cpu

import "math"

// panelRows is how many rows of activations a panel interleaves: the widest tile of a kernel.
const panelRows = 8

// blockLen is how many values share an activation scale, and the K step of every quantised kernel.
const blockLen = 32

// panelBlock is one block of K of up to eight quantised rows, as the kernels read it. Row r's values are about d[r]*q[r][i].
// The assembly knows these offsets through compute/cpu/gen.
type panelBlock struct {
	q     [panelRows][blockLen]int8
	d     [panelRows]float32 // the scale
	sd    [panelRows]float32 // d times the sum of q: what a weight's minimum multiplies
	neg   [panelRows]int32   // minus the sum of q: what a weight's zero point multiplies
	negLo [panelRows]int32   // the same over the first 16 values
}

// quantizeBlock quantises 32 activations into row r of a panel block.
//
//	d = max|x| / 127    q[i] = round_to_even(x[i] * (1/d))    sd = d * float32(sum q)
//
// Each operator rounds to float32 once. A block of zeros has d = 0 and q = 0. A block that holds a NaN or an infinity has
// d = NaN and q = 0, so that every output that reads it is NaN.
func quantizeBlock(p *panelBlock, r int, x *[blockLen]float32) {
	var peak uint32 // of the magnitudes' bits, which order as the magnitudes do, infinity and NaN on top
	for _, v := range x {
		peak = max(peak, math.Float32bits(v)&0x7fffffff)
	}
	if peak >= 0x7f800000 {
		p.q[r] = [blockLen]int8{}
		p.d[r], p.sd[r], p.neg[r], p.negLo[r] = float32(math.NaN()), float32(math.NaN()), 0, 0
		return
	}
	d := math.Float32frombits(peak) / 127
	var inverse float32
	if d > 0 {
		inverse = 1 / d
	}
	if math.IsInf(float64(inverse), 0) { // d so small that its inverse overflows: such a block counts as zeros
		d, inverse = 0, 0
	}
	var lo, hi int32
	for i, v := range x {
		q := int32(roundToEven(float32(v * inverse)))
		p.q[r][i] = int8(q)
		if i < blockLen/2 {
			lo += q
		} else {
			hi += q
		}
	}
	p.d[r], p.sd[r] = d, float32(d*float32(lo+hi))
	p.neg[r], p.negLo[r] = -(lo + hi), -lo
}

// roundToEven rounds |x| < 2^22 to the nearest integer, ties to even: adding and taking away 1.5*2^23 leaves no fraction.
func roundToEven(x float32) float32 {
	const magic = 12582912
	return float32(x+magic) - magic
}

// quantizeRowGo quantises one row of activations into row r of the panel blocks p, from len(p)*32 activations.
func quantizeRowGo(p []panelBlock, r int, x []float32) {
	for b := range p {
		quantizeBlock(&p[b], r, (*[blockLen]float32)(x[b*blockLen:]))
	}
}
