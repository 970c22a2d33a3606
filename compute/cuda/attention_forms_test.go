package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
	"memra/quant"
)

// rows is the attention of positions in any order; slots name the sequence of each (1 or 2, the same pages), -1 none.
func (a *attention) rows(t testing.TB, d *Device, m *kvMemory, positions, slots []int) []float32 {
	t.Helper()
	kv := compute.KV{Memory: m, Layer: 1, Tables: [][]int32{nil, a.pages, a.pages}}
	b, attn := new(compute.Batch), a.attn(d)
	q := make([]float32, 0, len(positions)*a.heads*a.dim)
	for i, p := range positions {
		b.Add(0, p, slots[i], false)
		q = append(q, a.q[p*a.heads*a.dim:][:a.heads*a.dim]...)
	}
	return d.compute(t, func(s *step) compute.Tensor {
		return s.Attention(b, s.tensor(q, a.heads*a.dim), kv, attn)
	})
}

// filled is a sequence's pages, stored in steps of 512 rows.
func (a *attention) filled(t testing.TB, d *Device, f compute.KVFormat) *kvMemory {
	t.Helper()
	m, err := d.NewKV(compute.KVShape{Layers: 2, Heads: a.kvHeads, HeadDim: a.dim, Format: f}, len(a.pages)+1)
	if err != nil {
		t.Fatal(err)
	}
	kv, width := compute.KV{Memory: m, Layer: 1, Tables: [][]int32{nil, a.pages}}, a.kvHeads*a.dim
	for from := 0; from < a.length; from += 512 {
		n := min(512, a.length-from)
		b := new(compute.Batch)
		for i := range n {
			b.Add(0, from+i, 1, false)
		}
		d.compute(t, func(s *step) compute.Tensor {
			s.AppendKV(b, kv, s.tensor(a.k[from*width:][:n*width], width), s.tensor(a.v[from*width:][:n*width], width))
			return compute.Tensor{}
		})
	}
	return m.(*kvMemory)
}

// Every kernel gives the plain one's bits: whole prompts, rows alone, a few together, two sequences and rows of none mixed, eager and
// as a graph; at positions around every border of a split.
func TestAttentionKernelsGiveThePlainOnesBits(t *testing.T) {
	d := gpu(t)
	if d.target != "sm_90a" {
		t.Skipf("%s has the plain kernel alone", d.name)
	}
	type shape struct {
		group, kvHeads, dim, length, window int
		format                              compute.KVFormat
		bent                                bool // scores have a cap, heads sinks
	}
	shapes := []shape{
		{4, 2, 128, 10000, 0, compute.KVF16, false},
		{1, 2, 128, 1300, 0, compute.KVF16, false},
		{2, 1, 64, 9300, 0, compute.KVF16, false},
		{3, 3, 64, 1500, 0, compute.KVF16, false},
		{5, 1, 80, 1200, 0, compute.KVF16, false},
		{7, 2, 96, 1200, 0, compute.KVF16, false},
		{8, 2, 128, 2300, 0, compute.KVF16, false},
		{16, 1, 128, 1300, 0, compute.KVF16, false},
		{20, 1, 64, 700, 0, compute.KVF16, false},
		{1, 1, 16, 300, 0, compute.KVF16, false},
		{2, 2, 32, 700, 0, compute.KVF16, false},
		{2, 2, 192, 2100, 0, compute.KVF16, false},
		{2, 2, 256, 9000, 0, compute.KVF16, false},
		{4, 1, 256, 2100, 1024, compute.KVF16, false},
		{4, 2, 128, 3000, 100, compute.KVF16, false},
		{3, 1, 64, 9000, 1000, compute.KVF16, false},
		{12, 1, 80, 1000, 64, compute.KVF16, false},
		{2, 1, 256, 400, 1, compute.KVF16, false},
		{8, 2, 512, 3000, 0, compute.KVF16, false},
		{3, 1, 512, 1500, 200, compute.KVF16, false},
		{130, 1, 16, 300, 0, compute.KVF16, false},
	}
	for _, f := range []compute.KVFormat{compute.KVQ8, compute.KVE4M3} {
		for _, dim := range headDims {
			shapes = append(shapes, shape{3, 2, dim, 1500, 0, f, false})
		}
		shapes = append(shapes, shape{4, 2, 128, 9300, 0, f, false}, shape{4, 1, 256, 2100, 1024, f, false}, shape{8, 1, 64, 1500, 128, f, true})
	}
	for _, dim := range headDims {
		shapes = append(shapes, shape{4, 2, dim, 2300, 0, compute.KVF16, true})
	}
	shapes = append(shapes, shape{2, 1, 128, 9300, 4096, compute.KVF16, true})
	for _, c := range shapes {
		t.Run(fmt.Sprintf("%d heads of %d over each of %d, %d positions, window %d, %v, bent %v", c.group, c.dim, c.kvHeads, c.length, c.window, c.format, c.bent), func(t *testing.T) {
			a := newAttention(c.group*c.kvHeads, c.kvHeads, c.dim, c.length, c.window)
			if c.bent {
				a.bent()
			}
			m, width := a.filled(t, d, c.format), a.heads*a.dim
			defer m.Close()
			all, ones := make([]int, a.length), slices.Repeat([]int{1}, a.length)
			for p := range all {
				all[p] = p
			}
			m.plain = true
			want := a.rows(t, d, m, all, ones)
			m.plain = false
			bitsEqual(t, "the prompt as a whole", a.rows(t, d, m, all, ones), want)
			check := func(what string, positions, slots []int) {
				t.Helper()
				var expected []float32
				for i, p := range positions {
					row := want[p*width:][:width]
					if slots[i] < 0 {
						row = make([]float32, width)
					}
					expected = append(expected, row...)
				}
				bitsEqual(t, what, a.rows(t, d, m, positions, slots), expected)
			}
			for _, p := range []int{0, 1, 63, 64, 127, 500, 1022, 1023, 1024, 1279, 1280, 4100, 8190, 8191, 8192, 9215, 9216, c.length - 1} {
				if p < c.length {
					check(fmt.Sprintf("position %d alone", p), []int{p}, ones[:1])
				}
			}
			rng := rand.New(rand.NewPCG(7, uint64(c.length)))
			for round := range 12 {
				var positions, slots []int
				for range 1 + rng.IntN(5) { // runs of rows, as drafts and chunks are
					from, n := rng.IntN(c.length), 1+rng.IntN(1<<rng.IntN(9))
					slot := []int{1, 1, 2, 2, -1}[rng.IntN(5)]
					for p := from; p < min(from+n, c.length); p++ {
						positions, slots = append(positions, p), append(slots, slot)
					}
				}
				if round%3 == 0 {
					rng.Shuffle(len(positions), func(i, j int) {
						positions[i], positions[j] = positions[j], positions[i]
						slots[i], slots[j] = slots[j], slots[i]
					})
				}
				for _, how := range []string{"eager", "captured", "replayed"} {
					check(fmt.Sprintf("round %d, %d rows, %s", round, len(positions), how), positions, slots)
				}
			}
		})
	}
}

// A step stores its rows before it reads them, however early the pages before are fetched.
func TestARowSeesWhatItsOwnStepStores(t *testing.T) {
	d := gpu(t)
	a := newAttention(8, 2, 128, 700, 0)
	m, width, kvWidth := a.filled(t, d, compute.KVF16), a.heads*a.dim, a.kvHeads*a.dim
	defer m.Close()
	all, ones := make([]int, a.length), slices.Repeat([]int{1}, a.length)
	for p := range all {
		all[p] = p
	}
	m.plain = true
	want := a.rows(t, d, m, all, ones)
	n, err := d.NewKV(m.shape, len(a.pages)+1)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	kv := compute.KV{Memory: n, Tables: [][]int32{nil, a.pages}}
	for p := 0; p < a.length; {
		rows := min(1+p%3, a.length-p)
		b := new(compute.Batch)
		for i := range rows {
			b.Add(0, p+i, 1, false)
		}
		bitsEqual(t, fmt.Sprintf("position %d", p), d.compute(t, func(s *step) compute.Tensor {
			k, v := s.tensor(a.k[p*kvWidth:][:rows*kvWidth], kvWidth), s.tensor(a.v[p*kvWidth:][:rows*kvWidth], kvWidth)
			q := s.tensor(a.q[p*width:][:rows*width], width)
			s.AppendKV(b, kv, k, v)
			return s.Attention(b, q, kv, compute.Attn{})
		}), want[p*width:][:rows*width])
		p += rows
	}
}

// stored is what a head's value becomes in a cache of 8 bits a value, by a slow twin of kernels/append.cu.
func stored(f compute.KVFormat, head []float32) []float32 {
	out := make([]float32, len(head))
	for i := 0; i < len(head); i += 32 {
		block := head[i:min(i+32, len(head))]
		most := float32(0)
		for _, x := range block {
			most = max(most, float32(math.Abs(float64(x))))
		}
		scale := half(most / 127) // rounded up: the next one where that is less
		if scale < most/127 {
			scale = quant.F16ToF32(quant.F32ToF16(scale) + 1)
		}
		if math.IsInf(float64(half(127*scale)), 0) {
			scale = quant.F16ToF32(quant.F32ToF16(scale) - 1)
		}
		for j, x := range block {
			switch f {
			case compute.KVQ8:
				if scale > 0 {
					out[i+j] = half(scale * float32(max(-127, min(127, math.RoundToEven(float64(x/scale))))))
				}
			case compute.KVE4M3:
				out[i+j] = nearestE4M3(x)
			}
		}
	}
	return out
}

// nearestE4M3 tries every code; of two as near, the even one.
func nearestE4M3(x float32) float32 {
	best, nearest := 0.0, math.Inf(1)
	for code := range 0x7f {
		v := float64(8|code&7) * math.Pow(2, float64(code>>3)-10)
		if code < 8 {
			v = float64(code) / 512
		}
		if d := math.Abs(math.Abs(float64(x)) - v); d < nearest || d == nearest && code%2 == 0 {
			best, nearest = v, d
		}
	}
	return float32(math.Copysign(best, float64(x)))
}

// A sequence of one position attends to its own value alone: what comes back is what was stored.
func TestACacheOf8BitsStoresTheNearestValues(t *testing.T) {
	d := gpu(t)
	for _, f := range []compute.KVFormat{compute.KVQ8, compute.KVE4M3} {
		for _, dim := range headDims {
			for _, scale := range []float32{1, 0.01, 300, 20000, 1e-6, 0} {
				a := newAttention(1, 1, dim, 1, 0)
				for i := range a.v {
					a.v[i] = max(-65504, min(65504, a.v[i]*scale))
				}
				m := a.filled(t, d, f)
				got := a.rows(t, d, m, []int{0}, []int{1})
				for i, want := range stored(f, a.v) {
					if got[i] != want {
						t.Fatalf("%v, width %d: %v is stored as %v, want %v", f, dim, a.v[i], got[i], want)
					}
				}
				m.Close()
			}
		}
	}
}

// A value of q8_0 is off by at most half a step, max/254, which of 32 normal values is 0.5 % of their norm; one of e4m3 by 2^-4 of
// itself, 2.6 % on average; and scores are off as much again.
func TestACacheOf8BitsIsCloseToFloat64(t *testing.T) {
	d := gpu(t)
	for f, tolerance := range map[compute.KVFormat]float64{compute.KVQ8: 0.012, compute.KVE4M3: 0.06} {
		for _, dim := range []int{64, 80, 128, 256, 512} {
			a := newAttention(4, 2, dim, 1500, 0)
			m := a.filled(t, d, f)
			for _, p := range []int{1, 100, 1499} {
				closeTo(t, fmt.Sprintf("%v, width %d, position %d", f, dim, p), a.rows(t, d, m, []int{p}, []int{1}), a.want(p), tolerance)
			}
			m.Close()
		}
	}
}

// What is not finite is seen by those who attend to it, and by nobody else.
func TestACacheOf8BitsKeepsWhatIsNotFiniteToItself(t *testing.T) {
	d := gpu(t)
	for _, f := range []compute.KVFormat{compute.KVQ8, compute.KVE4M3} {
		a := newAttention(2, 1, 64, 100, 0)
		a.v[50*64+3], a.k[70*64] = float32(math.Inf(1)), float32(math.NaN())
		m := a.filled(t, d, f)
		got := a.rows(t, d, m, []int{49, 50}, []int{1, 1})
		closeTo(t, "the row before", got[:128], a.want(49), 0.06)
		if x := got[128]; x == x {
			t.Errorf("%v: a row that attends to an infinite value gives %v, want NaN", f, x)
		}
		m.Close()
	}
}
