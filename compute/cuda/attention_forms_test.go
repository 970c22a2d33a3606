package cuda

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
)

// rows is the attention of positions in any order; slots name the sequence of each (1 or 2, the same pages), -1 none.
func (a *attention) rows(t testing.TB, d *Device, m *kvMemory, positions, slots []int) []float32 {
	t.Helper()
	kv := compute.KV{Memory: m, Layer: 1, Tables: [][]int32{nil, a.pages, a.pages}}
	b := new(compute.Batch)
	q := make([]float32, 0, len(positions)*a.heads*a.dim)
	for i, p := range positions {
		b.Add(0, p, slots[i], false)
		q = append(q, a.q[p*a.heads*a.dim:][:a.heads*a.dim]...)
	}
	return d.compute(t, func(s *step) compute.Tensor {
		return s.Attention(b, s.tensor(q, a.heads*a.dim), kv, compute.Attn{Window: a.window})
	})
}

// filled is a sequence's pages, stored in steps of 512 rows.
func (a *attention) filled(t testing.TB, d *Device) *kvMemory {
	t.Helper()
	m, err := d.NewKV(compute.KVShape{Layers: 2, Heads: a.kvHeads, HeadDim: a.dim}, len(a.pages)+1)
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
	for _, c := range []struct{ group, kvHeads, dim, length, window int }{
		{4, 2, 128, 10000, 0}, {1, 2, 128, 1300, 0}, {2, 1, 64, 9300, 0}, {3, 3, 64, 1500, 0}, {5, 1, 80, 1200, 0}, {7, 2, 96, 1200, 0},
		{8, 2, 128, 2300, 0}, {16, 1, 128, 1300, 0}, {20, 1, 64, 700, 0}, {1, 1, 16, 300, 0}, {2, 2, 32, 700, 0}, {2, 2, 192, 2100, 0},
		{2, 2, 256, 9000, 0}, {4, 1, 256, 2100, 1024}, {4, 2, 128, 3000, 100}, {3, 1, 64, 9000, 1000}, {12, 1, 80, 1000, 64}, {2, 1, 256, 400, 1},
		{130, 1, 16, 300, 0},
	} {
		t.Run(fmt.Sprintf("%d heads of %d over each of %d, %d positions, window %d", c.group, c.dim, c.kvHeads, c.length, c.window), func(t *testing.T) {
			a := newAttention(c.group*c.kvHeads, c.kvHeads, c.dim, c.length, c.window)
			m, width := a.filled(t, d), a.heads*a.dim
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
	m, width, kvWidth := a.filled(t, d), a.heads*a.dim, a.kvHeads*a.dim
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
