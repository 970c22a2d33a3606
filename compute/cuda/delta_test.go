package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
)

// deltaLayer is a delta-net's inputs for some rows of each of several sequences, on a device. Row r of sequence s is token s*rows+r.
type deltaLayer struct {
	device         compute.Device
	shape          compute.DeltaShape
	memory         compute.DeltaMemory
	gates          compute.DeltaGates
	conv           compute.Vector
	x, beta, alpha compute.Weight
	rows           int
	tables         [][]int32
	next           int32
	idle           []float32 // what the last step gave for a row without a sequence
	padding        int       // rows without a sequence of a step, beside one
	apart          bool      // the convolution is a tensor of its own, and not the beginning of the rule
	forgets        bool      // pages that begin in a step are not kept
}

func newDeltaLayer(t testing.TB, d compute.Device, shape compute.DeltaShape, sequences, rows, pages int, grouped bool) *deltaLayer {
	t.Helper()
	shape.Format = d.DeltaFormat()
	memory, err := d.NewDelta(shape, pages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	table := func(width int, seed uint64, scale, mean float32) compute.Weight {
		var data []byte
		for _, v := range random(sequences*rows*width, seed) {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(mean+scale*v))
		}
		w, err := d.Pack(gguf.F32, sequences*rows, width, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	a := random(shape.ValueHeads, 1)
	for i, v := range a {
		a[i] = -float32(math.Exp(float64(v) - 1))
	}
	w := random(shape.Taps*shape.Width(), 2)
	for i := range w {
		w[i] /= 2
	}
	return &deltaLayer{d, shape, memory, compute.DeltaGates{A: d.Vector(a), DT: d.Vector(random(shape.ValueHeads, 3)), Eps: 1e-6, Grouped: grouped}, d.Vector(w),
		table(shape.Width(), 4, 1, 0.3), table(shape.ValueHeads, 5, 1, 0), table(shape.ValueHeads, 6, 1, -2), rows, make([][]int32, sequences), 0, nil, 0, false, false}
}

// cut is rows [from, to) of a sequence.
type cut struct{ sequence, from, to int }

// step computes cuts together, their rows in a random order, and returns what the rule gives: by cut and row. Pages between a cut's first and
// last are not kept.
func (l *deltaLayer) step(t testing.TB, rng *rand.Rand, cuts ...cut) [][][]float32 {
	t.Helper()
	type place struct{ cut, row int }
	var places []place
	for i, c := range cuts {
		table := &l.tables[c.sequence]
		first, last := c.from/compute.Page, (c.to-1)/compute.Page
		*table = (*table)[:min(len(*table), (c.from+compute.Page-1)/compute.Page)]
		for page := len(*table); page <= last; page++ {
			number := int32(-1)
			if (page == first || page == last) && !(l.forgets && page*compute.Page >= c.from) {
				number, l.next = l.next%int32(l.memory.Pages()), l.next+1
			}
			*table = append(*table, number)
		}
		for r := range c.to - c.from {
			places = append(places, place{i, r})
		}
	}
	for range 1 + l.padding {
		places = append(places, place{-1, 0})
	}
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	var b compute.Batch
	for _, p := range places {
		if p.cut < 0 {
			b.Add(0, 5, -1, false)
			continue
		}
		c := cuts[p.cut]
		b.Add(int32(c.sequence*l.rows+c.from+p.row), c.from+p.row, c.sequence, false)
	}
	delta := compute.Delta{Memory: l.memory, Layer: l.shape.Layers - 1, Tables: l.tables}
	rows, err := l.device.Run(func(ops compute.Ops) compute.Tensor {
		y := ops.CausalConv(&b, delta, ops.Embed(&b, l.x, 1), l.conv)
		if l.apart {
			y = ops.Columns(y, 0, y.Width)
		}
		return ops.GatedDelta(&b, delta, y, ops.Embed(&b, l.beta, 1), ops.Embed(&b, l.alpha, 1), l.gates)
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([][][]float32, len(cuts))
	for i, c := range cuts {
		out[i] = make([][]float32, c.to-c.from)
	}
	for i, p := range places {
		if p.cut >= 0 {
			out[p.cut][p.row] = slices.Clone(rows[i])
			continue
		}
		l.idle = slices.Clone(rows[i])
	}
	return out
}

// Operands are halves and S is float32: the prototype's error is 6e-4 to 9e-4 without drift, and inputs of the convolution are halves here too.
func TestGatedDeltaAgreesWithTheCPU(t *testing.T) {
	d := gpu(t)
	c, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, shape := range []compute.DeltaShape{
		{Layers: 2, KeyHeads: 2, ValueHeads: 6, HeadDim: 128, Taps: 4}, {Layers: 1, KeyHeads: 2, ValueHeads: 2, HeadDim: 16, Taps: 4},
		{Layers: 1, KeyHeads: 1, ValueHeads: 2, HeadDim: 64, Taps: 3}, {Layers: 1, KeyHeads: 1, ValueHeads: 1, HeadDim: 32, Taps: 4},
	} {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprint(shape.HeadDim, " ", grouped), func(t *testing.T) {
				const rows = 1100
				rng := rand.New(rand.NewPCG(1, 1))
				want := newDeltaLayer(t, c, shape, 2, rows, 8, grouped).step(t, rng, cut{0, 0, rows}, cut{1, 0, 70})
				got := newDeltaLayer(t, d, shape, 2, rows, 8, grouped).step(t, rng, cut{0, 0, rows}, cut{1, 0, 70})
				for s := range want {
					for from := 0; from < len(want[s]); from += 275 {
						var g []float32
						var w []float64
						for r := from; r < min(from+275, len(want[s])); r++ {
							g = append(g, got[s][r]...)
							for _, v := range want[s][r] {
								w = append(w, float64(v))
							}
						}
						closeTo(t, fmt.Sprintf("sequence %d, rows from %d", s, from), g, w, 2e-3)
					}
				}
			})
		}
	}
}

func TestGatedDeltaHasTheSameBitsHoweverRowsAreCut(t *testing.T) {
	d := gpu(t)
	for _, shape := range []compute.DeltaShape{
		{Layers: 2, KeyHeads: 2, ValueHeads: 4, HeadDim: 128, Taps: 4}, {Layers: 1, KeyHeads: 1, ValueHeads: 2, HeadDim: 16, Taps: 4},
	} {
		const rows = 400
		rng := rand.New(rand.NewPCG(1, 2))
		want := newDeltaLayer(t, d, shape, 3, rows, 8, false).step(t, rng, cut{0, 0, rows}, cut{1, 0, rows}, cut{2, 0, rows})
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(shape.HeadDim, " ", seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				l := newDeltaLayer(t, d, shape, 3, rows, 4000, false)
				l.apart = seed%2 == 1
				at := make([]int, 3)
				for {
					var cuts []cut
					for s := range at {
						n := 1 // seed 0: token by token
						switch {
						case seed == 1: // drafts
							n = 1 + rng.IntN(8)
						case seed > 1:
							n = []int{0, 1, 3, 16, 17, 63, 64, 65, 200}[rng.IntN(9)]
						}
						if n = min(n, rows-at[s]); n > 0 {
							cuts = append(cuts, cut{s, at[s], at[s] + n})
						}
					}
					if at[0]+at[1]+at[2] == 3*rows {
						return
					}
					if len(cuts) == 0 {
						continue
					}
					got := l.step(t, rng, cuts...)
					bitsEqual(t, "a row without a sequence", l.idle, make([]float32, len(l.idle)))
					for i, c := range cuts {
						for r := range got[i] {
							bitsEqual(t, fmt.Sprintf("sequence %d row %d", c.sequence, c.from+r), got[i][r], want[c.sequence][c.from+r])
						}
						n := c.to - c.from
						if seed > 0 && n <= compute.Page {
							n = rng.IntN(n + 1) // the rest is rejected, and comes again
						}
						at[c.sequence] += n
					}
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

func TestGatedNormAndGatesAgreeWithFloat64(t *testing.T) {
	d := gpu(t)
	sigmoid := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	for _, dim := range []int{16, 128, 256} {
		const heads, eps, rows = 6, 1e-6, 3
		width := heads * dim
		x, z, g := random(rows*width, 1), random(rows*width, 2), random(dim, 3)
		gain := d.Vector(g)
		var want []float64
		for at := 0; at < len(x); at += dim {
			var squares float64
			for _, v := range x[at:][:dim] {
				squares += float64(v) * float64(v)
			}
			for i, v := range x[at:][:dim] {
				gate := z[at+i]
				want = append(want, float64(gate)*sigmoid(gate)*float64(g[i])*float64(v)/math.Sqrt(squares/float64(dim)+eps))
			}
		}
		closeTo(t, "gated norm", d.compute(t, func(s *step) compute.Tensor { return s.GatedNorm(s.tensor(x, width), s.tensor(z, width), gain, eps) }), want, 4e-4)

		q := random(rows*2*width, 4)
		var queries []float32
		var opened []float64
		for i := range rows * width {
			r, h, c := i/width, i%width/dim, i%dim
			queries = append(queries, q[r*2*width+h*2*dim+c])
			opened = append(opened, float64(x[i])*sigmoid(q[r*2*width+h*2*dim+dim+c]))
		}
		bitsEqual(t, "queries", d.compute(t, func(s *step) compute.Tensor { return s.ungated(s.tensor(q, 2*width), dim) }), queries)
		got := d.compute(t, func(s *step) compute.Tensor {
			y := s.tensor(x, width)
			o := *s.asOperand(y)
			o.rows = 0
			y.Mem = &o
			s.openGates(y, s.tensor(q, 2*width), dim)
			return y
		})
		closeTo(t, "gates", got, opened, 6e-4)
	}
}

// launchDelta launches every kernel of delta-nets.
func launchDelta(t *testing.T, d *Device) {
	rng := rand.New(rand.NewPCG(1, 1))
	for dim := range deltaDims {
		l := newDeltaLayer(t, d, compute.DeltaShape{Layers: 1, KeyHeads: 2, ValueHeads: 4, HeadDim: dim, Taps: 4}, 2, 300, 8, true)
		l.step(t, rng, cut{0, 0, 300}, cut{1, 0, 1})
		l.step(t, rng, cut{0, 4, 8}, cut{1, 1, 1 + deltaFewRows})
		l.apart = true
		l.step(t, rng, cut{1, 1, 2})
		gain := d.Vector(make([]float32, dim))
		d.compute(t, func(s *step) compute.Tensor {
			x := s.tensor(make([]float32, 4*dim), 4*dim)
			s.openGates(s.GatedNorm(x, x, gain, 1e-6), s.tensor(make([]float32, 8*dim), 8*dim), dim)
			return s.ungated(x, dim)
		})
	}
}
