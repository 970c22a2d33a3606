package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/quant"
)

// scene is some sequences with their queries, keys and values, to be attended on any schedule.
type scene struct {
	heads  int // of queries
	shape  compute.KVShape
	window int
	cap    float32   // of scores; 0: none
	sinks  []float32 // a score of each head without a value; nil: none
	seqs   []sequence
}

// sequence is the rows of one sequence by position: q [n, heads*dim], k and v [n, kvHeads*dim].
type sequence struct {
	n       int
	q, k, v []float32
}

// place is a row of a batch: a position of a sequence, or a padding row where seq is negative.
type place struct{ seq, position int }

func newScene(rng *rand.Rand, heads, kvHeads, dim, window int, format compute.KVFormat, lengths ...int) *scene {
	s := &scene{heads: heads, window: window, shape: compute.KVShape{Layers: 2, Heads: kvHeads, HeadDim: dim, Format: format}}
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	for _, n := range lengths {
		s.seqs = append(s.seqs, sequence{n, normal(n * heads * dim), normal(n * kvHeads * dim), normal(n * kvHeads * dim)})
	}
	return s
}

// sinks, as a cap, says that there is none, but a sink for each head: below, among and above the scores.
const sinks = -1

func (s *scene) bend(cap float32) {
	if s.cap = max(0, cap); cap == sinks {
		s.sinks = []float32{-9, 0.5, 3, 12, 1, 2}[:s.heads]
	}
}

// whole is the schedule that computes sequence i in one step.
func (s *scene) whole(i int) [][]place {
	var b []place
	for p := range s.seqs[i].n {
		b = append(b, place{i, p})
	}
	return [][]place{b}
}

// run appends and attends the batches in turn, and returns the outputs of every place.
func (s *scene) run(t testing.TB, d *Device, schedule [][]place) map[place][]float32 {
	t.Helper()
	kv := s.cache(t, d)
	results := map[place][]float32{}
	for _, places := range schedule {
		rows := s.step(t, d, kv, places, places)
		for r, p := range places {
			results[p] = append([]float32(nil), rows[r]...)
		}
	}
	return results
}

// cache makes tables of pages that lie in no order, in memory that is full of NaN.
func (s *scene) cache(t testing.TB, d *Device) compute.KV {
	t.Helper()
	kv, pages := compute.KV{Layer: 1}, 0
	for _, q := range s.seqs {
		pages += ceilDiv(q.n, compute.Page)
	}
	memory, err := d.NewKV(s.shape, pages)
	if err != nil {
		t.Fatal(err)
	}
	kv.Memory = memory
	m := memory.(*kvMemory)
	for i := range m.half {
		m.half[i] = 0x7e00
	}
	for i := range m.full {
		m.full[i] = full(math.NaN())
	}
	order := rand.New(rand.NewPCG(7, 7)).Perm(pages)
	for _, q := range s.seqs {
		var table []int32
		for range ceilDiv(q.n, compute.Page) {
			table, order = append(table, int32(order[0])), order[1:]
		}
		kv.Tables = append(kv.Tables, table)
	}
	return kv
}

// step appends some rows and attends some.
func (s *scene) step(t testing.TB, d *Device, kv compute.KV, appended, attended []place) [][]float32 {
	t.Helper()
	rows, err := d.Run(func(ops compute.Ops) compute.Tensor {
		o := ops.(*step)
		b, tensors := s.batch(o, appended)
		o.AppendKV(b, kv, tensors[1], tensors[2])
		b, tensors = s.batch(o, attended)
		a := compute.Attn{Window: s.window, Cap: s.cap}
		if s.sinks != nil {
			a.Sinks = d.Vector(s.sinks)
		}
		return o.Attention(b, tensors[0], kv, a)
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// batch is the places' rows: queries, keys and values.
func (s *scene) batch(o *step, places []place) (*compute.Batch, [3]compute.Tensor) {
	b := new(compute.Batch)
	dim := s.shape.HeadDim
	var tensors [3]compute.Tensor
	for i, width := range []int{s.heads * dim, s.shape.Heads * dim, s.shape.Heads * dim} {
		x, m := o.tensor(len(places), width)
		for r, p := range places {
			if p.seq >= 0 {
				q := &s.seqs[p.seq]
				copy(m.row(r, width), [][]float32{q.q, q.k, q.v}[i][p.position*width:])
			}
		}
		tensors[i] = x
	}
	for _, p := range places {
		b.Add(0, max(0, p.position), p.seq, false)
	}
	return b, tensors
}

// reference is the attention of one row in float64, and a bound on what float32 in the order of attend.go may miss it by.
//
// With u = 2^-24, A the largest sum of |q*k| of a key, and S the scores' spread: a score is wrong by at most (dim+3)uA, its
// probability by that (a cap adds 4e-7 of itself), the roundings of S and of exp (1e-7) relative, and the largest score alike. A split adds up to 1024
// products and rescales 16 times, each by an exp.
func (s *scene) reference(p place) (want, bound []float64) {
	const u = 0x1p-24
	dim, seq := s.shape.HeadDim, &s.seqs[p.seq]
	stored := func(x float32) float64 {
		if s.shape.Format == compute.KVF16 {
			x = quant.F16ToF32(quant.F32ToF16(x))
		}
		return float64(x)
	}
	first := 0
	if s.window > 0 {
		first = max(0, p.position+1-s.window)
	}
	for h := range s.heads {
		q := seq.q[(p.position*s.heads+h)*dim:][:dim]
		kvAt := h / (s.heads / s.shape.Heads) * dim
		scores, top, size, low := make([]float64, p.position+1), math.Inf(-1), 0.0, math.Inf(1)
		for t := first; t <= p.position; t++ {
			sum, abs := 0.0, 0.0
			for d, x := range seq.k[t*s.shape.Heads*dim+kvAt:][:dim] {
				sum += float64(q[d]) * stored(x)
				abs += math.Abs(float64(q[d]) * stored(x))
			}
			scores[t] = sum / math.Sqrt(float64(dim))
			if s.cap > 0 {
				scores[t] = float64(s.cap) * math.Tanh(scores[t]/float64(s.cap))
			}
			top, low, size = max(top, scores[t]), min(low, scores[t]), max(size, abs/math.Sqrt(float64(dim)))
		}
		if s.sinks != nil {
			top = max(top, float64(s.sinks[h]))
		}
		total, out, abs := 0.0, make([]float64, dim), make([]float64, dim)
		for t := first; t <= p.position; t++ {
			weight := math.Exp(scores[t] - top)
			total += weight
			for d, x := range seq.v[t*s.shape.Heads*dim+kvAt:][:dim] {
				out[d] += weight * stored(x)
				abs[d] += weight * math.Abs(stored(x))
			}
		}
		if s.sinks != nil {
			total += math.Exp(float64(s.sinks[h]) - top)
		}
		pages := float64(p.position-first)/compute.Page + 2
		relative := 2*(float64(dim+3)*u*size+(top-low)*u+4e-7*float64(s.cap)+1e-7) + 2*pages*2e-7 + 1100*u
		for d := range out {
			want, bound = append(want, out[d]/total), append(bound, relative*abs[d]/total)
		}
	}
	return want, bound
}

func TestAttentionAgreesWithFloat64(t *testing.T) {
	for _, c := range []struct {
		heads, kvHeads, dim, window int
		format                      compute.KVFormat
		cap                         float32
	}{
		{3, 3, 64, 0, compute.KVF16, 0},
		{4, 2, 80, 0, compute.KVF32, 0},
		{9, 3, 64, 0, compute.KVF16, 0},
		{4, 1, 256, 512, compute.KVF16, 0},
		{8, 1, 512, 0, compute.KVF16, 0},
		{8, 1, 128, 0, compute.KVF16, 0},
		{2, 1, 64, 50, compute.KVF32, 0},
		{3, 1, 16, 1, compute.KVF16, 0},
		{4, 2, 64, 90, compute.KVF16, 1.5},
		{2, 1, 256, 0, compute.KVF32, 50},
		{4, 2, 64, 128, compute.KVF16, sinks},
		{4, 1, 32, 0, compute.KVF32, sinks},
	} {
		t.Run(fmt.Sprintf("%d to %d heads of %d, window %d, %v, cap %v", c.heads, c.kvHeads, c.dim, c.window, c.format, c.cap), func(t *testing.T) {
			s := newScene(rand.New(rand.NewPCG(1, 1)), c.heads, c.kvHeads, c.dim, c.window, c.format, 1090, 65)
			s.bend(c.cap)
			d := openTest(t, 2, sets[0])
			kv := s.cache(t, d)
			s.step(t, d, kv, append(s.whole(0)[0], s.whole(1)[0]...), nil)
			var places []place
			for _, p := range []int{0, 1, 2, 62, 63, 64, 65, 127, 128, 511, 512, 1022, 1023, 1024, 1025, 1088, 1089} {
				places = append(places, place{0, p})
				if p < 65 {
					places = append(places, place{1, p})
				}
			}
			for r, row := range s.step(t, d, kv, nil, places) {
				want, bound := s.reference(places[r])
				for i := range want {
					if !(math.Abs(float64(row[i])-want[i]) <= bound[i]) {
						t.Fatalf("%+v value %d: %v, float64 gives %v, at most %v apart", places[r], i, row[i], want[i], bound[i])
					}
				}
			}
		})
	}
}

// TestAttentionRowsAreTheirOwn is R1 to R3: a row's bits are the same alone and in company, in any order, cut anywhere, with
// padding, on any number of threads, for any instruction set, and whatever stands behind it in its sequence.
func TestAttentionRowsAreTheirOwn(t *testing.T) {
	for _, c := range []struct {
		heads, kvHeads, window, longest int
		cap                             float32
	}{
		{2, 1, 0, 2100, 0}, // three splits: of two, the order does not matter
		{3, 3, 0, 1100, 0},
		{6, 2, 0, 300, 2},
		{2, 1, 100, 1100, 0},
		{4, 1, 0, 1300, sinks},
	} {
		t.Run(fmt.Sprintf("%d to %d heads, window %d, %d positions", c.heads, c.kvHeads, c.window, c.longest), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, uint64(c.window+c.heads)))
			s := newScene(rng, c.heads, c.kvHeads, 16, c.window, compute.KVF16, 70, 130, c.longest)
			s.bend(c.cap)
			plain := openTest(t, 1, &goKernels)
			want := map[place][]float32{}
			for i := range s.seqs {
				for p, row := range s.run(t, plain, s.whole(i)) {
					want[p] = row
				}
			}
			poison := s.poisoned(rng)
			for i, threads := range []int{1, 2, 3, 5, 8} {
				k := sets[i%len(sets)]
				d := openTest(t, threads, k)
				for _, scene := range []*scene{s, poison} {
					schedule := scene.schedule(rng)
					for p, row := range scene.run(t, d, schedule) {
						if p.seq < 0 {
							wantEqual(t, "padding", row, make([]float32, len(row)))
						} else if scene == s || p.position < scene.poisonFrom(p.seq) {
							wantEqual(t, fmt.Sprintf("%s, %d threads, %+v", k.name, threads, p), row, want[p])
						} else if p.position == s.seqs[p.seq].n-1 && row[0] == row[0] {
							t.Fatalf("%+v sees a NaN and is %v", p, row[0])
						}
					}
				}
			}
		})
	}
}

// poisonFrom is where a poisoned sequence turns bad.
func (s *scene) poisonFrom(seq int) int { return s.seqs[seq].n * 3 / 4 }

// poisoned is the scene with rows of NaN and infinities at the end of every sequence.
func (s *scene) poisoned(rng *rand.Rand) *scene {
	bad := *s
	bad.seqs = nil
	for i, q := range s.seqs {
		spoil := func(x []float32) []float32 {
			y := append([]float32(nil), x...)
			for j := s.poisonFrom(i) * len(x) / q.n; j < len(y); j++ {
				y[j] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[rng.IntN(3)]
			}
			return y
		}
		bad.seqs = append(bad.seqs, sequence{q.n, spoil(q.q), spoil(q.k), spoil(q.v)})
	}
	return &bad
}

// schedule cuts the sequences into chunks at random, and mixes their rows, with some padding, in each step.
func (s *scene) schedule(rng *rand.Rand) [][]place {
	var steps [][]place
	done := make([]int, len(s.seqs))
	for {
		var b []place
		for i, q := range s.seqs {
			chunk := 1 + rng.IntN(1+rng.IntN(600))
			for ; chunk > 0 && done[i] < q.n; chunk-- {
				b = append(b, place{i, done[i]})
				done[i]++
			}
		}
		if len(b) == 0 {
			return steps
		}
		switch rng.IntN(3) {
		case 0:
			b = append(b, place{-1, -1})
			rng.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		case 1: // chunks stay together, sequences change places
			b = append([]place{{-1, -1}}, b...)
		}
		steps = append(steps, b)
	}
}
