//go:build amd64 && !noasm

package cpu

import (
	"unsafe"

	"memra/compute"
	"memra/sample"
)

// The assembly takes pointers and whole sixteens of values. What is here checks lengths, and leaves the rest of a row to the
// plain Go, which computes the same bits.

// whole is how many of n values the assembly takes.
func whole(n int) int { return n &^ 15 }

// elementwise is a kernel y = f(a, b) of any length.
func elementwise(assembly func(y, a, b *float32, n int), rest func(y, a, b []float32)) func(y, a, b []float32) {
	return func(y, a, b []float32) {
		y, b = y[:len(a)], b[:len(a)]
		n := whole(len(a))
		if n > 0 {
			assembly(&y[0], &a[0], &b[0], n)
		}
		rest(y[n:], a[n:], b[n:])
	}
}

func scaler(assembly func(y, x, g *float32, r float32, n int)) func(y, x, g []float32, r float32) {
	return func(y, x, g []float32, r float32) {
		y, g = y[:len(x)], g[:len(x)]
		n := whole(len(x))
		if n > 0 {
			assembly(&y[0], &x[0], &g[0], r, n)
		}
		scaleGo(y[n:], x[n:], g[n:], r)
	}
}

func bender(assembly func(y, x *float32, twice, outer, cap float32, n int)) func(y, x []float32, cap float32) {
	return func(y, x []float32, cap float32) {
		y = y[:len(x)]
		n := whole(len(x))
		if n > 0 {
			twice, outer := bendFactors(cap)
			assembly(&y[0], &x[0], twice, outer, cap, n)
		}
		bendGo(y[n:], x[n:], cap)
	}
}

func squarer(assembly func(x *float32, n int) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		if n := len(x); n > 0 && n == whole(n) {
			return assembly(&x[0], n)
		}
		return sumSquaresGo(x) // a rest adds to the partial sums, before they are folded
	}
}

func largester(assembly func(x *float32, n int) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		n := whole(len(x))
		if n == 0 {
			return sample.Largest(x)
		}
		y := assembly(&x[0], n)
		if rest := sample.Largest(x[n:]); rest > y || rest != rest {
			y = rest
		}
		return y
	}
}

func quantizer(assembly func(q *int8, d, sd *float32, neg, negLo *int32, stride int, x *float32, blocks int)) func(p []panelBlock, r int, x []float32) {
	return func(p []panelBlock, r int, x []float32) {
		if len(p) == 0 {
			return
		}
		x = x[:len(p)*blockLen]
		b := &p[0]
		assembly(&b.q[r][0], &b.d[r], &b.sd[r], &b.neg[r], &b.negLo[r], int(unsafe.Sizeof(*b)), &x[0], len(p))
	}
}

func softmaxer(assembly func(scores, peak, sums *float32) float32) func(s *[compute.Page]float32, peak *float32, sums *[16]float32) float32 {
	return func(s *[compute.Page]float32, peak *float32, sums *[16]float32) float32 {
		return assembly(&s[0], peak, &sums[0])
	}
}

// scorer has a kernel for one query vector, for two, and so on.
func scorer(assembly ...func(s, q *float32, k *uint16, dim int)) func(s [][compute.Page]float32, q []float32, k []half) {
	return func(s [][compute.Page]float32, q []float32, k []half) {
		k = k[:len(q)/len(s)*compute.Page]
		score(s, q, (*uint16)(&k[0]), assembly)
	}
}

func scorerFull(assembly ...func(s, q, k *float32, dim int)) func(s [][compute.Page]float32, q []float32, k []full) {
	return func(s [][compute.Page]float32, q []float32, k []full) {
		k = k[:len(q)/len(s)*compute.Page]
		score(s, q, (*float32)(&k[0]), assembly)
	}
}

func score[T any](s [][compute.Page]float32, q []float32, k *T, assembly []func(s, q *float32, k *T, dim int)) {
	dim := len(q) / len(s)
	for h := 0; h < len(s); {
		n := min(len(assembly), len(s)-h)
		assembly[n-1](&s[h][0], &q[h*dim], k, dim)
		h += n
	}
}

// valuer has a kernel for one query vector, for two, and so on.
func valuer(assembly ...func(o, p, rescale *float32, v *uint16, dim, keys int)) func(o []float32, p [][compute.Page]float32, rescale []float32, v []half, from, to int) {
	return func(o []float32, p [][compute.Page]float32, rescale []float32, v []half, from, to int) {
		v = v[from*len(o)/len(p) : to*len(o)/len(p)]
		weigh(o, p, rescale, (*uint16)(&v[0]), from, to, assembly)
	}
}

func valuerFull(assembly ...func(o, p, rescale, v *float32, dim, keys int)) func(o []float32, p [][compute.Page]float32, rescale []float32, v []full, from, to int) {
	return func(o []float32, p [][compute.Page]float32, rescale []float32, v []full, from, to int) {
		v = v[from*len(o)/len(p) : to*len(o)/len(p)]
		weigh(o, p, rescale, (*float32)(&v[0]), from, to, assembly)
	}
}

func weigh[T any](o []float32, p [][compute.Page]float32, rescale []float32, v *T, from, to int, assembly []func(o, p, rescale *float32, v *T, dim, keys int)) {
	dim := len(o) / len(p)
	rescale = rescale[:len(p)]
	for h := 0; h < len(p); {
		n := min(len(assembly), len(p)-h)
		assembly[n-1](&o[h*dim], &p[h][from], &rescale[h], v, dim, to-from)
		h += n
	}
}

func decayer(assembly func(y, x, g *float32, top float32, n int)) func(y, x, g []float32, top float32) {
	return func(y, x, g []float32, top float32) {
		y, x = y[:len(g)], x[:len(g)]
		n := whole(len(g))
		if n > 0 {
			assembly(&y[0], &x[0], &g[0], top, n)
		}
		decayGo(y[n:], x[n:], g[n:], top)
	}
}

// matrixAdder has a kernel for one row, for two, and so on.
func matrixAdder(assembly ...func(y, a, b *float32, ly, la, lb, depth, width int)) func(y []float32, ly int, a []float32, la int, b []float32, lb, rows, depth, width int) {
	return func(y []float32, ly int, a []float32, la int, b []float32, lb, rows, depth, width int) {
		if rows == 0 || depth == 0 || width == 0 {
			return
		}
		y, a, b = y[:(rows-1)*ly+width], a[:(rows-1)*la+depth], b[:(depth-1)*lb+width]
		for i := 0; i < rows; {
			n := min(len(assembly), rows-i)
			assembly[n-1](&y[i*ly], &a[i*la], &b[0], 4*ly, 4*la, 4*lb, depth, width)
			i += n
		}
	}
}

// widenAVX converts halves to float32.
func widenAVX(dst []full, src []half) {
	dst = dst[:len(src)]
	n := whole(len(src))
	if n > 0 {
		widenF16C((*float32)(&dst[0]), (*uint16)(&src[0]), n)
	}
	widenGo(dst[n:], src[n:])
}

// halveAVX converts values to halves.
func halveAVX(dst []half, src []float32) {
	dst = dst[:len(src)]
	n := whole(len(src))
	if n > 0 {
		halveF16C((*uint16)(&dst[0]), &src[0], n)
	}
	halveGo(dst[n:], src[n:])
}

// spreadAVX converts values to halves, a row of transposed keys each.
func spreadAVX(dst []half, src []float32) {
	n := whole(len(src))
	if n > 0 {
		spreadF16C((*uint16)(&dst[:(n-1)*compute.Page+1][0]), &src[0], n)
	}
	if n < len(src) {
		spreadGo(dst[n*compute.Page:], src[n:])
	}
}

func rotateHalvesAVX(lo, hi, cos, sin []float32) {
	hi, cos, sin = hi[:len(lo)], cos[:len(lo)], sin[:len(lo)]
	n := whole(len(lo))
	if n > 0 {
		rotateHalvesAVX2(&lo[0], &hi[0], &cos[0], &sin[0], n)
	}
	rotateHalvesGo(lo[n:], hi[n:], cos[n:], sin[n:])
}

func rotateNeighboursAVX(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	n := whole(len(cos))
	if n > 0 {
		rotateNeighboursAVX2(&x[0], &cos[0], &sin[0], n)
	}
	rotateNeighboursGo(x[2*n:], cos[n:], sin[n:])
}
