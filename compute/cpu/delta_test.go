package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// deltaCase is a delta-net layer with inputs for some rows of one sequence.
type deltaCase struct {
	shape          compute.DeltaShape
	gates          compute.DeltaGates
	a, dt, w       []float32
	x, beta, alpha []float32 // of all rows
	rows           int
}

func newDeltaCase(seed uint64, shape compute.DeltaShape, rows int, grouped bool) *deltaCase {
	rng := rand.New(rand.NewPCG(seed, 2))
	normal := func(n int, scale, mean float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + scale*rng.NormFloat64())
		}
		return v
	}
	c := &deltaCase{shape: shape, rows: rows, a: make([]float32, shape.ValueHeads), dt: normal(shape.ValueHeads, 1, 0),
		w: normal(shape.Taps*shape.Width(), 0.5, 0), x: normal(rows*shape.Width(), 1, 0.3),
		beta: normal(rows*shape.ValueHeads, 1, 0), alpha: normal(rows*shape.ValueHeads, 1, -2)}
	for i := range c.a {
		c.a[i] = -float32(math.Exp(rng.NormFloat64() - 1))
	}
	c.gates = compute.DeltaGates{A: compute.Vector{Width: len(c.a), Mem: c.a}, DT: compute.Vector{Width: len(c.dt), Mem: c.dt}, Eps: 1e-6, Grouped: grouped}
	return c
}

// deltaLife is a sequence in so many pages.
type deltaLife struct {
	c      *deltaCase
	device *Device
	delta  compute.Delta
	next   int32
}

func (c *deltaCase) begin(t testing.TB, d *Device, pages int) *deltaLife {
	t.Helper()
	m, err := d.NewDelta(c.shape, pages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for i := range m.(*deltaMemory).values { // a page has been another's before
		m.(*deltaMemory).values[i] = float32(math.NaN())
	}
	return &deltaLife{c, d, compute.Delta{Memory: m, Layer: c.shape.Layers - 1, Tables: [][]int32{nil}}, 0}
}

// step computes rows [from, to), in an order of the caller's choice, and returns what the convolution and the rule give, by row.
// Where the rows go through whole pages, those between the first and the last are not kept.
func (l *deltaLife) step(from, to int, order []int) (conv, out [][]float32) {
	table := &l.delta.Tables[0]
	first, last := from/compute.Page, (to-1)/compute.Page
	*table = (*table)[:min(len(*table), (from+compute.Page-1)/compute.Page)]
	for page := len(*table); page <= last; page++ {
		number := int32(-1)
		if page == first || page == last {
			number, l.next = l.next, l.next+1
		}
		*table = append(*table, number)
	}
	var b compute.Batch
	x, beta, alpha := l.c.x, l.c.beta, l.c.alpha
	var rx, rb, ra []float32
	row := func(v []float32, r int) []float32 { n := len(v) / l.c.rows; return v[r*n:][:n] }
	for _, i := range order {
		b.Add(0, from+i, 0, false)
		rx, rb, ra = append(rx, row(x, from+i)...), append(rb, row(beta, from+i)...), append(ra, row(alpha, from+i)...)
	}
	tensor := func(v []float32) compute.Tensor {
		return compute.Tensor{Rows: len(order), Width: len(v) / len(order), Mem: &buffer{rows: v}}
	}
	conv, out = make([][]float32, len(order)), make([][]float32, len(order))
	l.device.step.begin()
	s := &l.device.step
	y := s.CausalConv(&b, l.delta, tensor(rx), compute.Vector{Width: len(l.c.w), Mem: l.c.w})
	o := s.GatedDelta(&b, l.delta, y, tensor(rb), tensor(ra), l.c.gates)
	for r, i := range order {
		conv[i] = append([]float32(nil), mem(y).row(r, y.Width)...)
		out[i] = append([]float32(nil), mem(o).row(r, o.Width)...)
	}
	return conv, out
}

func ascending(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// truth is the usual recurrence in float64: the state is changed at every row.
func (c *deltaCase) truth() (conv, out [][]float64) {
	s, width := c.shape, c.shape.Width()
	states := make([]float64, s.ValueHeads*s.HeadDim*s.HeadDim)
	for r := range c.rows {
		y := make([]float64, width)
		for i := range y {
			for j := range s.Taps {
				if at := r - s.Taps + 1 + j; at >= 0 {
					y[i] += float64(c.w[j*width+i]) * float64(c.x[at*width+i])
				}
			}
			y[i] /= 1 + math.Exp(-y[i])
		}
		o := make([]float64, s.ValueHeads*s.HeadDim)
		for h := range s.ValueHeads {
			head := h % s.KeyHeads
			if c.gates.Grouped {
				head = h / (s.ValueHeads / s.KeyHeads)
			}
			unit := func(x []float64) []float64 {
				sum := 0.0
				for _, v := range x {
					sum += v * v
				}
				u := make([]float64, len(x))
				for i, v := range x {
					u[i] = v / math.Sqrt(sum+float64(c.gates.Eps))
				}
				return u
			}
			q, k, v := unit(y[head*s.HeadDim:][:s.HeadDim]), unit(y[(s.KeyHeads+head)*s.HeadDim:][:s.HeadDim]), y[(2*s.KeyHeads+h)*s.HeadDim:][:s.HeadDim]
			beta := 1 / (1 + math.Exp(-float64(c.beta[r*s.ValueHeads+h])))
			decay := math.Exp(float64(c.a[h]) * math.Log1p(math.Exp(float64(c.alpha[r*s.ValueHeads+h])+float64(c.dt[h]))))
			S := states[h*s.HeadDim*s.HeadDim:][:s.HeadDim*s.HeadDim]
			for col := range s.HeadDim {
				read := 0.0
				for i := range s.HeadDim {
					S[i*s.HeadDim+col] *= decay
					read += S[i*s.HeadDim+col] * k[i]
				}
				u, sum := beta*(v[col]-read), 0.0
				for i := range s.HeadDim {
					S[i*s.HeadDim+col] += k[i] * u
					sum += S[i*s.HeadDim+col] * q[i]
				}
				o[h*s.HeadDim+col] = sum / math.Sqrt(float64(s.HeadDim))
			}
		}
		conv, out = append(conv, y), append(out, o)
	}
	return conv, out
}

// apart is the root of the sum of squared differences over that of squares, of rows [from, to).
func apart(got [][]float32, want [][]float64, from, to int) float64 {
	var d, n float64
	for r := from; r < to; r++ {
		for i, w := range want[r] {
			d += (float64(got[r][i]) - w) * (float64(got[r][i]) - w)
			n += w * w
		}
	}
	return math.Sqrt(d / n)
}

func TestGatedDeltaAgreesWithTheRecurrenceInFloat64(t *testing.T) {
	for _, grouped := range []bool{false, true} {
		t.Run(fmt.Sprint("grouped ", grouped), func(t *testing.T) {
			c := newDeltaCase(1, compute.DeltaShape{Layers: 2, KeyHeads: 2, ValueHeads: 4, HeadDim: 32, Taps: 4}, 2000, grouped)
			d := openTest(t, 2, sets[0])
			conv, out := c.begin(t, d, 2).step(0, c.rows, ascending(c.rows))
			wantConv, want := c.truth()
			if e := apart(conv, wantConv, 0, c.rows); e > 1e-6 {
				t.Errorf("convolution: relative error %.2g, want at most 1e-6", e)
			}
			for _, end := range []int{64, 256, 1000, 2000} {
				if e := apart(out, want, end-64, end); e > 1e-5 {
					t.Errorf("rule, rows up to %d: relative error %.2g, want at most 1e-5", end, e)
				} else {
					t.Logf("rows up to %d: %.2g", end, e)
				}
			}
		})
	}
}

func TestGatedDeltaIsBlindToHowRowsAreCut(t *testing.T) {
	c := newDeltaCase(2, compute.DeltaShape{Layers: 2, KeyHeads: 1, ValueHeads: 2, HeadDim: 32, Taps: 4}, 400, false)
	wantConv, want := c.begin(t, openTest(t, 1, &goKernels), 2).step(0, c.rows, ascending(c.rows))
	same := func(t *testing.T, row int, got, want []float32, what string) {
		t.Helper()
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("row %d: %s[%d] is %v, want %v", row, what, i, got[i], want[i])
			}
		}
	}
	for _, k := range sets {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(k.name, " ", seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				l := c.begin(t, openTest(t, 1+rng.IntN(3), k), c.rows)
				for at := 0; at < c.rows; {
					n := 1 // seed 0: token by token
					switch {
					case seed == 1: // drafts
						n = 1 + rng.IntN(8)
					case seed > 1:
						n = []int{1, 3, 16, 17, 63, 64, 65, 200}[rng.IntN(8)]
					}
					n = min(n, c.rows-at)
					order := ascending(n)
					if seed > 2 {
						order = rng.Perm(n)
					}
					conv, out := l.step(at, at+n, order)
					for i := range n {
						same(t, at+i, conv[i], wantConv[at+i], "convolution")
						same(t, at+i, out[i], want[at+i], "rule")
					}
					if keep := rng.IntN(n + 1); seed > 0 && n <= compute.Page {
						n = keep // the rest is rejected, and comes again
					}
					at += n
				}
			})
		}
	}
}
