package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// bank is the experts of a test, packed together and one by one.
type bank struct {
	compute.Experts
	one  [3][]compute.Weight // gate, up, down of each
	bias [3][]float32
}

func newBank(t testing.TB, d *Device, rng *rand.Rand, format gguf.Type, experts, width, hidden int, gating compute.Gating, biased bool) *bank {
	t.Helper()
	b := &bank{Experts: compute.Experts{Gating: gating, Limit: 0.75}}
	for i, m := range []struct {
		all         *compute.Weight
		rows, width int
	}{{&b.Gate, hidden, width}, {&b.Up, hidden, width}, {&b.Down, width, hidden}} {
		f := *known(format)
		var data [][]byte
		for range experts {
			data = append(data, randomRows(t, rng, &f, m.rows, m.width))
			w, err := d.Pack(format, m.rows, m.width, data[len(data)-1], nil)
			if err != nil {
				t.Fatal(err)
			}
			b.one[i] = append(b.one[i], w)
		}
		heard := 0
		w, err := d.PackExperts(format, experts, m.rows, m.width, func(e int) ([]byte, func(), error) {
			return data[e], func() { heard++ }, nil
		})
		if err != nil || heard != experts {
			t.Fatal(err, heard)
		}
		*m.all = w
		b.bias[i] = make([]float32, experts*m.rows)
		if biased {
			normal(rng, 0, b.bias[i])
			m.all.Bias = d.Vector(b.bias[i])
		}
	}
	return b
}

// row takes one row through one expert, by the operations of dense layers.
func (b *bank) row(o *step, x []float32, e int) []float32 {
	tensor := func(x []float32) compute.Tensor {
		t, m := o.tensor(1, len(x))
		copy(m.rows, x)
		return t
	}
	product := func(i int, x compute.Tensor) compute.Tensor {
		y := o.MatMul(x, b.one[i][e])
		for j := range y.Width {
			if b.Gate.Bias.Mem != nil {
				o.ready(y).rows[j] += b.bias[i][e*y.Width+j]
			}
		}
		return y
	}
	in := tensor(x)
	g, u := product(0, in), product(1, in)
	var h compute.Tensor
	switch b.Gating {
	case compute.SwiGLU:
		h = o.SwiGLU(g, u)
	case compute.GeGLU:
		h = o.GeGLU(g, u)
	case compute.ClampedSwiGLU:
		clampGo(o.ready(g).rows, o.ready(u).rows, b.Limit)
		h = o.SwiGLU(g, u)
	}
	return o.ready(product(2, h)).rows
}

// TestExpertsAreDenseLayersOfTheirRows: whoever else is in the step, a row gets the bits that matmuls and gates of dense layers
// give of it alone, added by falling key.
func TestExpertsAreDenseLayersOfTheirRows(t *testing.T) {
	const experts, chosen, width, hidden = 7, 3, 256, 512
	for n, c := range []struct {
		format gguf.Type
		gating compute.Gating
		biased bool
	}{
		{gguf.Q8_0, compute.SwiGLU, false}, {gguf.Q4_K, compute.SwiGLU, false}, {gguf.Q6_K, compute.GeGLU, false}, {gguf.MXFP4, compute.ClampedSwiGLU, true},
		{gguf.F32, compute.SwiGLU, true}, {gguf.BF16, compute.ClampedSwiGLU, false},
	} {
		for _, k := range sets {
			for _, rows := range []int{1, 2, 33} {
				t.Run(fmt.Sprint(c.format, "/", k.name, "/", rows), func(t *testing.T) {
					d, rng := openTest(t, 1+rows%3, k), rand.New(rand.NewPCG(uint64(n), uint64(rows)))
					b := newBank(t, d, rng, c.format, experts, width, hidden, c.gating, c.biased)
					router, err := d.Pack(gguf.F32, experts, width, randomRows(t, rng, known(gguf.F32), experts, width), nil)
					if err != nil {
						t.Fatal(err)
					}
					runStep(t, d, func(o *step) compute.Tensor {
						x, m := drawn(o, rng, rows, width)
						out, om := drawn(o, rng, rows, width)
						logit, lm := drawn(o, rng, rows, 1)
						r := o.Router(x, router, compute.Routing{Chosen: chosen, Normalise: true})
						y := o.Experts(x, r, b.Experts, compute.Shared{Out: out, Gate: logit})
						routed := r.Mem.(*routes)
						for i := range rows {
							want := make([]float32, width)
							for j := range chosen {
								addScaled(want, b.row(o, m.row(i, width), int(routed.experts[i*chosen+j])), routed.weights[i*chosen+j])
							}
							addScaled(want, om.row(i, width), 1/(1+exp(-lm.rows[i])))
							wantEqual(t, fmt.Sprint("row ", i), o.ready(y).row(i, width), want)
						}
						return y
					})
				})
			}
		}
	}
}

// route is what Routing says, in float64 and by sorting.
func route(l []float32, o compute.Routing, choiceBias, scales []float32) (experts []int, weights []float64) {
	n := len(l)
	s, key, order, sum := make([]float64, n), make([]float64, n), make([]int, n), 0.0
	for e := range l {
		s[e] = math.Exp(float64(l[e]))
		sum += s[e]
		order[e] = e
	}
	for e := range s {
		if s[e] /= sum; o.Score == compute.Sigmoid {
			s[e] = 1 / (1 + math.Exp(-float64(l[e])))
		}
		key[e] = s[e] + float64(choiceBias[e])
	}
	if o.Groups > 0 {
		size, groups := n/o.Groups, make([]int, o.Groups)
		best := make([]float64, o.Groups)
		for g := range groups {
			sorted := slices.Sorted(slices.Values(key[g*size : (g+1)*size]))
			groups[g], best[g] = g, sorted[size-1]+sorted[size-2]
		}
		slices.SortStableFunc(groups, func(a, b int) int { return compare(best[b], best[a]) })
		for _, g := range groups[o.KeptGroups:] {
			for e := range size {
				key[g*size+e] = math.Inf(-1)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(key[b], key[a]) })
	total := 0.0
	for _, e := range order[:o.Chosen] {
		experts, weights, total = append(experts, e), append(weights, s[e]), total+s[e]
	}
	for j, e := range experts {
		if o.Normalise {
			weights[j] /= total
		}
		if o.Scale != 0 {
			weights[j] *= float64(o.Scale)
		}
		weights[j] *= float64(scales[e])
	}
	return experts, weights
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// identity packs a matrix that gives a row itself, so that a test says what a router's products are.
func identity(t testing.TB, d *Device, n int) compute.Weight {
	t.Helper()
	data := make([]byte, 4*n*n)
	for i := range n {
		copy(data[4*(i*n+i):], []byte{0, 0, 0x80, 0x3f})
	}
	w, err := d.Pack(gguf.F32, n, n, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestRouterAgreesWithFloat64: weights are off by an exponential's 1e-7 and a handful of roundings.
func TestRouterAgreesWithFloat64(t *testing.T) {
	const n, rows = 64, 33
	for _, c := range []struct {
		name           string
		o              compute.Routing
		choice, scales bool
	}{
		{"softmax over the chosen ones", compute.Routing{Chosen: 8, Normalise: true}, false, false},
		{"softmax over all", compute.Routing{Chosen: 8}, false, false},
		{"softmax with a scale for each expert", compute.Routing{Chosen: 4, Normalise: true}, false, true},
		{"softmax, chosen by a bias", compute.Routing{Chosen: 6, Normalise: true}, true, false},
		{"sigmoid", compute.Routing{Chosen: 2, Score: compute.Sigmoid}, false, false},
		{"sigmoid, chosen by a bias, normalised and scaled", compute.Routing{Chosen: 8, Score: compute.Sigmoid, Normalise: true, Scale: 2.5}, true, false},
		{"sigmoid in groups", compute.Routing{Chosen: 8, Score: compute.Sigmoid, Normalise: true, Groups: 8, KeptGroups: 3}, true, false},
		{"one group", compute.Routing{Chosen: 8, Score: compute.Sigmoid, Groups: 1, KeptGroups: 1}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(1, 2))
			vector := func(on bool, otherwise float32) ([]float32, compute.Vector) {
				v := make([]float32, n)
				for i := range v {
					if v[i] = otherwise; on {
						v[i] = float32(rng.NormFloat64())
					}
				}
				if !on {
					return v, compute.Vector{}
				}
				return v, d.Vector(v)
			}
			choice, cv := vector(c.choice, 0)
			scales, sv := vector(c.scales, 1)
			o := c.o
			o.ChoiceBias, o.Scales = cv, sv
			w := identity(t, d, n)
			runStep(t, d, func(s *step) compute.Tensor {
				x, m := drawn(s, rng, rows, n)
				l := slices.Clone(m.rows)
				r := s.Router(x, w, o).Mem.(*routes)
				for i := range rows {
					experts, weights := route(l[i*n:][:n], o, choice, scales)
					for j := range experts {
						at := i*o.Chosen + j
						if got := int(r.experts[at]); got != experts[j] {
							t.Fatalf("row %d chooses %d as number %d, want %d", i, got, j, experts[j])
						}
						if got := float64(r.weights[at]); math.Abs(got-weights[j]) > 1e-6*math.Abs(weights[j]) {
							t.Fatalf("row %d weighs expert %d by %v, float64 gives %v", i, experts[j], got, weights[j])
						}
					}
				}
				return x
			})
		})
	}
}

func TestRouterTakesTheLowerIndexOfEqualsAndMakesNaNsNaN(t *testing.T) {
	const n = 8
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		l    []float32
		want []int32
		nan  bool
	}{
		{"all are equal", []float32{1, 1, 1, 1, 1, 1, 1, 1}, []int32{0, 1, 2}, false},
		{"two are equal, one is larger", []float32{0, 5, 0, 0, 7, 5, 0, 5}, []int32{4, 1, 5}, false},
		{"zeros of both signs are equal", []float32{-1, float32(math.Copysign(0, -1)), 0, -1, 0, -1, -1, -1}, []int32{1, 2, 4}, false},
		{"a NaN", []float32{0, 1, 2, nan, 4, 5, 6, 7}, []int32{0, 1, 2}, true},
		{"minus infinities", []float32{-inf, -inf, -inf, 3, -inf, 2, -inf, -inf}, []int32{3, 5, 0}, false},
		{"infinity", []float32{0, inf, 0, 0, 0, 0, 0, 0}, []int32{1, 0, 2}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			experts, weights := make([]int32, 3), make([]float32, 3)
			newChooser(compute.Routing{Chosen: 3, Normalise: true}).choose(experts, weights, slices.Clone(c.l), make([]float32, n))
			if !slices.Equal(experts, c.want) {
				t.Errorf("chose %v, want %v", experts, c.want)
			}
			if isNaN := weights[0] != weights[0]; isNaN != c.nan {
				t.Errorf("weights %v, want NaN: %v", weights, c.nan)
			}
		})
	}
}
