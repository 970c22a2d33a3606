package cpu

import (
	"math"

	"memra/compute"
	"memra/quant"
)

// The inner loops of attention, over one page of 64 positions and one KV head. A page holds its keys transposed, [HeadDim][64],
// then its values, [64][HeadDim]: lanes are keys in the one, values of the head in the other, so no sum crosses lanes.
//
// Order, per row and query head: pages ascending. A page's scores are summed over d ascending, its probabilities added to
// sixteen running sums (key modulo 16), its values added key by key; where the maximum rises, sums and output are first
// multiplied by exp(old - new). Every splitPages pages, and at the end, the running sums are folded and merged into the
// row's total. No operation is fused.

// splitPages is how many pages a split holds: splits begin at multiples of 1024 positions.
const splitPages = 16

// half and full are stored keys and values.
type (
	half uint16
	full float32
)

func (h half) float() float32 { return quant.F16ToF32(uint16(h)) }
func (f full) float() float32 { return float32(f) }

type stored interface {
	half | full
	float() float32
}

// scoresGo is s[h][t] = sum over d of q[h][d]*k[d][t], d ascending, for len(s) heads and the 64 keys of a page.
func scoresGo[T stored](s [][compute.Page]float32, q []float32, k []T) {
	dim := len(q) / len(s)
	clear(s)
	for d := range dim {
		for t, key := range k[d*compute.Page:][:compute.Page] {
			x := key.float()
			for h := range s {
				s[h][t] += float32(q[h*dim+d] * x)
			}
		}
	}
}

// softmaxGo turns scores into exp(s - max) with the maximum so far, and adds them to the sums. It returns what earlier
// sums and outputs were to be multiplied by, which it did to the sums.
func softmaxGo(s *[compute.Page]float32, peak *float32, sums *[16]float32) (rescale float32) {
	top := *peak
	for _, v := range s {
		if v > top {
			top = v
		}
	}
	rescale = exp(*peak - top)
	*peak = top
	for i := range sums {
		sums[i] *= rescale
	}
	for t, v := range s {
		s[t] = exp(v - top)
		sums[t%16] += s[t]
	}
	return rescale
}

// valuesGo is o[h][d] = o[h][d]*rescale[h] + sum over t in [from, to) of p[h][t]*v[t][d], t ascending.
func valuesGo[T stored](o []float32, p [][compute.Page]float32, rescale []float32, v []T, from, to int) {
	dim := len(o) / len(p)
	for h, r := range rescale {
		for d := range dim {
			o[h*dim+d] *= r
		}
	}
	for t := from; t < to; t++ {
		for d, value := range v[t*dim:][:dim] {
			x := value.float()
			for h := range p {
				o[h*dim+d] += float32(p[h][t] * x)
			}
		}
	}
}

// partial is the attention of one row and query head over part of its positions, relative to the largest score there.
type partial struct {
	peak float32
	sums [16]float32
}

func (p *partial) reset() { *p = partial{peak: float32(math.Inf(-1))} }

// merge adds a split to a row's total. Both outputs and sums are relative to their peaks; afterwards sums[0] is the sum:
//
//	sum = sum*a + fold(split)*b    out = out*a + split*b    a, b = exp(peak - the larger peak)
func (total *partial) merge(out []float32, split *partial, splitOut []float32) {
	top := total.peak
	if split.peak > top {
		top = split.peak
	}
	a, b := exp(total.peak-top), exp(split.peak-top)
	total.peak = top
	total.sums[0] = float32(total.sums[0]*a) + float32(fold(&split.sums)*b)
	for d, v := range splitOut {
		out[d] = float32(out[d]*a) + float32(v*b)
	}
}

// close is what a total's output is to be multiplied by: 1/sum, or with a sink, a score more, exp(peak - top) / (sum*exp(peak - top) +
// exp(sink - top)) with the larger of both as top.
func (total *partial) close(sink float32) float32 {
	if sink == noSink {
		return 1 / total.sums[0]
	}
	top := total.peak
	if sink > top {
		top = sink
	}
	a := exp(total.peak - top)
	return a / (float32(total.sums[0]*a) + exp(sink-top))
}

// noSink is the score that adds nothing.
var noSink = float32(math.Inf(-1))
