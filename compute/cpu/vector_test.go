package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// fills are the kinds of values that kernels meet.
var fills = []struct {
	name string
	next func(rng *rand.Rand) float32
}{
	{"normal", func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) }},
	{"wide", func(rng *rand.Rand) float32 { return float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()*8)) }},
	{"around the exponential's ends", func(rng *rand.Rand) float32 {
		x := []float32{expMin, expMax, -expMin, -expMax}[rng.IntN(4)]
		return math.Float32frombits(math.Float32bits(x) + uint32(rng.IntN(5)) - 2)
	}},
	{"denormal", func(rng *rand.Rand) float32 { return math.Float32frombits(rng.Uint32() & 0x807fffff) }},
	{"near the smallest scale", func(rng *rand.Rand) float32 { return float32(rng.NormFloat64()) * 0x1p-121 }},
	{"halfway", func(rng *rand.Rand) float32 { return float32(rng.IntN(255)-127) / 2 }},
	{"zero", func(rng *rand.Rand) float32 { return float32(math.Copysign(0, float64(rng.IntN(2))-0.5)) }},
	{"any bits", func(rng *rand.Rand) float32 { return math.Float32frombits(rng.Uint32()) }},
	{"seldom not finite", func(rng *rand.Rand) float32 {
		switch rng.IntN(100) {
		case 0:
			return float32(math.NaN())
		case 1:
			return float32(math.Inf(1 - 2*rng.IntN(2)))
		}
		return float32(rng.NormFloat64() * 3)
	}},
}

var lengths = []int{0, 1, 15, 16, 17, 31, 32, 48, 100, 576, 1536}

// guard stands behind outputs, where no kernel writes.
const guard = float32(-12345.5)

// outputs is n values that are not results, then a guard.
func outputs(n int) []float32 {
	y := make([]float32, n+17)
	for i := range y {
		y[i] = guard
	}
	return y
}

// equal reports whether two values are one result: the same bits, or both NaN.
func equal(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func wantEqual(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !equal(got[i], want[i]) {
			t.Fatalf("%s[%d]: %v (%#08x), plain Go gives %v (%#08x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// eachSet runs a test for every instruction set of this machine but plain Go, kind of values and length.
func eachSet(t *testing.T, lengths []int, test func(t *testing.T, k *kernels, n int, draw func(n int) []float32)) {
	for _, k := range sets[:len(sets)-1] {
		for _, f := range fills {
			t.Run(k.name+"/"+f.name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(3, 4))
				for _, n := range lengths {
					test(t, k, n, func(n int) []float32 {
						x := make([]float32, n)
						for i := range x {
							x[i] = f.next(rng)
						}
						return x
					})
				}
			})
		}
	}
}

func TestElementwiseKernelsEqualPlainGo(t *testing.T) {
	eachSet(t, lengths, func(t *testing.T, k *kernels, n int, draw func(n int) []float32) {
		a, b, r := draw(n), draw(n), draw(1)[0]
		for _, f := range []struct {
			name      string
			got, want func(y []float32)
		}{
			{"add", func(y []float32) { k.add(y, a, b) }, func(y []float32) { addGo(y, a, b) }},
			{"scale", func(y []float32) { k.scale(y, a, b, r) }, func(y []float32) { scaleGo(y, a, b, r) }},
			{"swiglu", func(y []float32) { k.swiglu(y, a, b) }, func(y []float32) { swigluGo(y, a, b) }},
			{"geglu", func(y []float32) { k.geglu(y, a, b) }, func(y []float32) { gegluGo(y, a, b) }},
			{"bend", func(y []float32) { k.bend(y, a, 2.5) }, func(y []float32) { bendGo(y, a, 2.5) }},
		} {
			got, want := outputs(n), outputs(n)
			f.got(got)
			f.want(want)
			wantEqual(t, f.name, got, want)
		}
		if got, want := k.sumSquares(a), sumSquaresGo(a); !equal(got, want) {
			t.Fatalf("sumSquares of %d: %v, plain Go gives %v", n, got, want)
		}
	})
}

func TestScaleMayWriteWhereItReads(t *testing.T) {
	eachSet(t, []int{64, 100}, func(t *testing.T, k *kernels, n int, draw func(n int) []float32) {
		x, g, want := draw(n), draw(n), make([]float32, n)
		scaleGo(want, x, g, 0.3)
		k.scale(x, x, g, 0.3)
		wantEqual(t, "scale", x, want)
	})
}

func TestRotationsEqualPlainGo(t *testing.T) {
	eachSet(t, []int{1, 8, 16, 24, 32, 64, 100}, func(t *testing.T, k *kernels, pairs int, draw func(n int) []float32) {
		cos, sin := draw(pairs), draw(pairs)
		for _, neighbour := range []bool{false, true} {
			got := outputs(2*pairs + 5)
			copy(got, draw(2*pairs))
			want := append([]float32(nil), got...)
			r := &compute.Rope{Dims: 2 * pairs, Neighbour: neighbour}
			k.rotate(got, r, cos, sin)
			goKernels.rotate(want, r, cos, sin)
			wantEqual(t, fmt.Sprintf("neighbour %v, %d pairs", neighbour, pairs), got, want)
		}
	})
}

func TestHalvesEqualPlainGo(t *testing.T) {
	eachSet(t, lengths, func(t *testing.T, k *kernels, n int, draw func(n int) []float32) {
		x := draw(n)
		got, want := make([]half, 64*n+64), make([]half, 64*n+64)
		k.halve(got, x)
		halveGo(want, x)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("halve[%d] of %v: %#x, plain Go gives %#x", i, x[i], got[i], want[i])
			}
		}
		k.spread(got[5:], x)
		spreadGo(want[5:], x)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("spread[%d]: %#x, plain Go gives %#x", i, got[i], want[i])
			}
		}
	})
}

func TestQuantizedRowsEqualPlainGo(t *testing.T) {
	eachSet(t, []int{0, 1, 2, 18}, func(t *testing.T, k *kernels, blocks int, draw func(n int) []float32) {
		for r := range panelRows {
			x := draw(blocks * blockLen)
			got, want := make([]panelBlock, blocks+1), make([]panelBlock, blocks+1)
			for i := range got {
				for j := range panelRows {
					got[i].d[j], got[i].sd[j], got[i].neg[j], got[i].negLo[j] = guard, guard, -7, -7
					got[i].q[j][3] = 99
				}
				want[i] = got[i]
			}
			k.quantizeRow(got[:blocks], r, x)
			quantizeRowGo(want[:blocks], r, x)
			for i := range want {
				wantEqual(t, fmt.Sprintf("block %d: d", i), got[i].d[:], want[i].d[:])
				wantEqual(t, fmt.Sprintf("block %d: sd", i), got[i].sd[:], want[i].sd[:])
				if got[i].q != want[i].q || got[i].neg != want[i].neg || got[i].negLo != want[i].negLo {
					t.Fatalf("block %d of row %d: %+v, plain Go gives %+v", i, r, got[i], want[i])
				}
			}
		}
	})
}

func TestSoftmaxEqualsPlainGo(t *testing.T) {
	eachSet(t, []int{0, 1, 2, 3, 4}, func(t *testing.T, k *kernels, variant int, draw func(n int) []float32) {
		got := [3][compute.Page]float32{1: [compute.Page]float32(draw(compute.Page))}
		var sums [16]float32
		peak := float32(math.Inf(-1))
		if variant > 0 { // a later page; peaks are never NaN
			if x := draw(1)[0]; x == x {
				peak = x
			}
			copy(sums[:], draw(16))
		}
		if variant > 1 { // part of the page is out of sight
			for i := variant; i < compute.Page; i++ {
				got[1][i] = float32(math.Inf(-1))
			}
		}
		want, wantSums, wantPeak := got, sums, peak
		rescale, wantRescale := k.softmax(&got[1], &peak, &sums), softmaxGo(&want[1], &wantPeak, &wantSums)
		for i := range want {
			wantEqual(t, "probabilities", got[i][:], want[i][:])
		}
		wantEqual(t, "sums", sums[:], wantSums[:])
		if !equal(rescale, wantRescale) || peak != wantPeak { // the sign of a zero peak changes nothing
			t.Fatalf("rescale %v and peak %v, plain Go gives %v and %v", rescale, peak, wantRescale, wantPeak)
		}
	})
}

func TestAttentionKernelsEqualPlainGo(t *testing.T) {
	eachSet(t, []int{16, 64, 80, 256}, func(t *testing.T, k *kernels, dim int, draw func(n int) []float32) {
		for _, heads := range []int{1, 2, 3, 4, 5, 9} {
			q, page := draw(heads*dim), make([]half, dim*compute.Page)
			halveGo(page, draw(len(page)))
			wide := make([]full, len(page)+1)
			k.widen(wide[:len(page)], page)
			for i, h := range page {
				if !equal(float32(wide[i]), h.float()) || wide[len(page)] != 0 {
					t.Fatalf("widen[%d] of %#x: %v, plain Go gives %v", i, h, wide[i], h.float())
				}
			}
			got, want := make([][compute.Page]float32, heads+1), make([][compute.Page]float32, heads+1)
			k.scores(got[:heads], q, page)
			scoresGo(want[:heads], q, page)
			for h := range want {
				wantEqual(t, fmt.Sprintf("%d heads: scores of head %d", heads, h), got[h][:], want[h][:])
			}
			k.scoresFull(got[:heads], q, wide)
			for h := range want {
				wantEqual(t, fmt.Sprintf("%d heads: scores of head %d by float32 keys", heads, h), got[h][:], want[h][:])
			}
			p, rescale := make([][compute.Page]float32, heads), draw(heads)
			for h := range p {
				copy(p[h][:], draw(compute.Page))
			}
			from := heads * 5 % 64
			for _, span := range [][2]int{{0, compute.Page}, {from, from + 1}, {from, compute.Page}, {0, from + 1}} {
				o := outputs(heads * dim)
				copy(o, draw(heads*dim))
				wantO, wideO := append([]float32(nil), o...), append([]float32(nil), o...)
				k.valuesFull(wideO[:heads*dim], p, rescale, wide, span[0], span[1])
				k.values(o[:heads*dim], p, rescale, page, span[0], span[1])
				valuesGo(wantO[:heads*dim], p, rescale, page, span[0], span[1])
				wantEqual(t, fmt.Sprintf("%d heads, keys %v: outputs", heads, span), o, wantO)
				wantEqual(t, fmt.Sprintf("%d heads, keys %v: outputs of float32 values", heads, span), wideO, wantO)
			}
		}
	})
}
