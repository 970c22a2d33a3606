package cuda

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// matrices are random weights of experts, in a file's format.
func matrices(t testing.TB, format gguf.Type, experts, rows, width int, seed uint64) [][]byte {
	t.Helper()
	f, err := quant.For(format)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	all, values := make([][]byte, experts), random(rows*width, seed)
	for e := range all {
		for i := range values {
			values[i] = quant.F16ToF32(quant.F32ToF16(values[(i+1)%len(values)])) // float32 that f16 holds
		}
		all[e] = make([]byte, rows*size)
		for r := range rows {
			f.Quantize(all[e][r*size:][:size], values[r*width:][:width], nil)
		}
	}
	return all
}

func packAll(t testing.TB, d compute.Device, format gguf.Type, rows, width int, data [][]byte) compute.Weight {
	t.Helper()
	w, err := d.PackExperts(format, len(data), rows, width, func(e int) ([]byte, func(), error) { return data[e], nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// expertFormats has a format of every layout.
var expertFormats = []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q4_K, gguf.Q5_0, gguf.Q5_K, gguf.Q6_K, gguf.BF16, gguf.MXFP4}

// launchExperts reaches every kernel of experts and routers.
func launchExperts(t *testing.T, d *Device) {
	const experts, chosen, width, hidden = 4, 2, 256, 512
	router, err := d.Pack(gguf.F32, experts, width, matrices(t, gguf.F32, 1, experts, width, 1)[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range expertFormats {
		e := compute.Experts{Gate: packAll(t, d, format, hidden, width, matrices(t, format, experts, hidden, width, 2)),
			Up: packAll(t, d, format, hidden, width, matrices(t, format, experts, hidden, width, 3)), Down: packAll(t, d, format, width, hidden, matrices(t, format, experts, width, hidden, 4))}
		for _, rows := range []int{1, 200} {
			d.compute(t, func(s *step) compute.Tensor {
				x := s.tensor(random(rows*width, 5), width)
				return s.Experts(x, s.Router(x, router, compute.Routing{Chosen: chosen}), e, compute.Shared{})
			})
		}
	}
}

// chosenOnes reads routes back.
func (s *step) chosenOnes(r compute.Routes) (experts, weights compute.Tensor) {
	m := s.routes(r)
	return compute.Tensor{Rows: r.Rows, Width: r.Chosen, Mem: &buffer{home: s.at, rows: m.experts}},
		compute.Tensor{Rows: r.Rows, Width: r.Chosen, Mem: &buffer{home: s.at, rows: m.weights}}
}

// A row that takes one expert gets the bits that matmuls and a gate of that expert's matrices give of it, few rows or many.
func TestExpertsAreMatmulsOfTheirRows(t *testing.T) {
	d := gpu(t)
	const experts, width, hidden, rows = 5, 576, 704, 400
	for _, format := range expertFormats {
		if values, _ := format.Block(); width%values != 0 || hidden%values != 0 || format == gguf.MXFP4 { // MXFP4 alone is f16 elsewhere
			continue
		}
		for _, gating := range []compute.Gating{compute.SwiGLU, compute.GeGLU} {
			t.Run(fmt.Sprint(format, gating), func(t *testing.T) {
				g, u, dn := matrices(t, format, experts, hidden, width, 2), matrices(t, format, experts, hidden, width, 3), matrices(t, format, experts, width, hidden, 4)
				e := compute.Experts{Gate: packAll(t, d, format, hidden, width, g), Up: packAll(t, d, format, hidden, width, u), Down: packAll(t, d, format, width, hidden, dn), Gating: gating}
				router, err := d.Pack(gguf.F32, experts, width, matrices(t, gguf.F32, 1, experts, width, 1)[0], nil)
				if err != nil {
					t.Fatal(err)
				}
				x := random(rows*width, 7)
				one := compute.Routing{Chosen: 1, Normalise: true}
				var ids []float32
				for _, n := range []int{1, 7, 90, rows} {
					ids = d.compute(t, func(s *step) compute.Tensor {
						ids, _ := s.chosenOnes(s.Router(s.tensor(x[:n*width], width), router, one))
						return ids
					})
					got := d.compute(t, func(s *step) compute.Tensor {
						in := s.tensor(x[:n*width], width)
						return s.Experts(in, s.Router(in, router, one), e, compute.Shared{})
					})
					for i := range experts {
						var ws [3]compute.Weight
						for k, m := range [][]byte{g[i], u[i], dn[i]} {
							n, w := hidden, width
							if k == 2 {
								n, w = width, hidden
							}
							if ws[k], err = d.Pack(format, n, w, m, nil); err != nil {
								t.Fatal(err)
							}
						}
						want := d.compute(t, func(s *step) compute.Tensor {
							in := s.tensor(x[:n*width], width)
							a, b := s.MatMul(in, ws[0]), s.MatMul(in, ws[1])
							if gating == compute.GeGLU {
								return s.MatMul(s.GeGLU(a, b), ws[2])
							}
							return s.MatMul(s.SwiGLU(a, b), ws[2])
						})
						for r := range n {
							if int(math.Float32bits(ids[r])) == i {
								bitsEqual(t, fmt.Sprintf("row %d of %d, expert %d", r, n, i), got[r*width:][:width], want[r*width:][:width])
							}
						}
					}
				}
			})
		}
	}
}

// A row's bits do not depend on its company, whatever the layout.
func TestExpertsRowsAreTheirOwn(t *testing.T) {
	d := gpu(t)
	const experts, chosen, width, hidden, rows = 16, 4, 512, 768, 1100
	for _, format := range expertFormats {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			e := compute.Experts{Gate: packAll(t, d, format, hidden, width, matrices(t, format, experts, hidden, width, 2)), Limit: 2, Gating: compute.ClampedSwiGLU,
				Up: packAll(t, d, format, hidden, width, matrices(t, format, experts, hidden, width, 3)), Down: packAll(t, d, format, width, hidden, matrices(t, format, experts, width, hidden, 4))}
			e.Gate.Bias, e.Up.Bias, e.Down.Bias = d.Vector(random(experts*hidden, 8)), d.Vector(random(experts*hidden, 9)), d.Vector(random(experts*width, 10))
			router, err := d.Pack(gguf.F32, experts, width, matrices(t, gguf.F32, 1, experts, width, 1)[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			x, out, open := random(rows*width, 7), random(rows*width, 11), random(rows, 12)
			run := func(from, to int) []float32 {
				return d.compute(t, func(s *step) compute.Tensor {
					in := s.tensor(x[from*width:to*width], width)
					r := s.Router(in, router, compute.Routing{Chosen: chosen, Normalise: true})
					return s.Experts(in, r, e, compute.Shared{Out: s.tensor(out[from*width:to*width], width), Gate: s.tensor(open[from:to], 1)})
				})
			}
			whole := run(0, rows)
			for _, v := range whole[:width] {
				if v != v {
					t.Fatal("a NaN")
				}
			}
			for _, n := range []int{1, 2, 9, 64, 65, 300} {
				for _, from := range []int{0, 517, rows - n} {
					bitsEqual(t, fmt.Sprintf("rows %d to %d", from, from+n), run(from, from+n), whole[from*width:(from+n)*width])
				}
			}
		})
	}
}

// truth is what Routing says, in float64 and by sorting.
func truth(l []float32, o compute.Routing, choice, scales []float32) (ids []int, weights []float64) {
	n := len(l)
	score, key, sum := make([]float64, n), make([]float64, n), 0.0
	for e, v := range l {
		score[e] = math.Exp(float64(v))
		sum += score[e]
		ids = append(ids, e)
	}
	for e, v := range l {
		if score[e] /= sum; o.Score == compute.Sigmoid {
			score[e] = 1 / (1 + math.Exp(-float64(v)))
		}
		key[e] = score[e] + float64(choice[e])
	}
	if o.Groups > 0 {
		size, order := n/o.Groups, make([]int, o.Groups)
		best := make([]float64, o.Groups)
		for g := range order {
			sorted := slices.Sorted(slices.Values(key[g*size : (g+1)*size]))
			order[g], best[g] = g, sorted[size-1]+sorted[size-2]
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(best[b], best[a]) })
		for _, g := range order[o.KeptGroups:] {
			for e := range size {
				key[g*size+e] = math.Inf(-1)
			}
		}
	}
	slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	ids, sum = ids[:o.Chosen], 0
	for _, e := range ids {
		weights = append(weights, score[e])
		sum += score[e]
	}
	for j, e := range ids {
		if o.Normalise {
			weights[j] /= sum
		}
		if o.Scale != 0 {
			weights[j] *= float64(o.Scale)
		}
		weights[j] *= float64(scales[e])
	}
	return ids, weights
}

func TestRouterAgreesWithFloat64(t *testing.T) {
	d := gpu(t)
	const n, rows, bad = 128, 70, 3
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, rows*n) // f16 holds it, so that products with an identity are exact; many are equal
	for i := range x {
		x[i] = float32(rng.IntN(60)-30) / 8
	}
	x[bad*n+5] = float32(math.NaN())
	data := make([]byte, 4*n*n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*(i*n+i):], math.Float32bits(1))
	}
	w, err := d.Pack(gguf.F32, n, n, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []compute.Routing{{Chosen: 8, Normalise: true}, {Chosen: 8}, {Chosen: 6, Score: compute.Sigmoid, Normalise: true, Scale: 2.5},
		{Chosen: 8, Score: compute.Sigmoid, Groups: 8, KeptGroups: 3, Normalise: true}, {Chosen: 4, Groups: 4, KeptGroups: 2}} {
		for _, biased := range []bool{false, true} {
			choice, scales := make([]float32, n), make([]float32, n)
			for i := range scales {
				scales[i] = 1
			}
			if biased {
				choice, scales = random(n, 2), random(n, 3)
				o.ChoiceBias, o.Scales = d.Vector(choice), d.Vector(scales)
			}
			read := func(what int) []float32 {
				return d.compute(t, func(s *step) compute.Tensor {
					ids, weights := s.chosenOnes(s.Router(s.tensor(x, n), w, o))
					return []compute.Tensor{ids, weights}[what]
				})
			}
			ids, weights := read(0), read(1)
			for r := range rows {
				want, share := truth(x[r*n:][:n], o, choice, scales)
				for j := range want {
					id, got := int(math.Float32bits(ids[r*o.Chosen+j])), weights[r*o.Chosen+j]
					if r == bad {
						if id != j || got == got {
							t.Fatalf("the row of NaN takes expert %d by %v, want %d by NaN", id, got, j)
						}
					} else if id != want[j] || math.Abs(float64(got)-share[j]) > 2e-6*math.Abs(share[j]) {
						t.Fatalf("%+v, row %d, choice %d: expert %d by %v, float64 takes %d by %v", o, r, j, id, got, want[j], share[j])
					}
				}
			}
		}
	}
}
