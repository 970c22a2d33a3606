package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"memra/compute"
)

func TestAChunkOfAStepSaysWhereItsRowsAndPagesAre(t *testing.T) {
	table := func(pages ...int32) []int32 { return pages }
	for _, c := range []struct {
		name             string
		slots, positions []int32
		tables           [][]int32
		chunks           []chunkEntry
		longest          int
	}{
		{"a first row", []int32{0}, []int32{0}, [][]int32{table(7)}, []chunkEntry{{at: 0, rows: 1, position: 0, before: -1, first: 7, next: -1}}, 1},
		{"rows across a page's end, out of order", []int32{1, 1, 1}, []int32{64, 63, 65}, [][]int32{nil, table(4, 9, 2)},
			[]chunkEntry{{at: 0, rows: 3, position: 63, before: -1, first: 4, next: 9}}, 3},
		{"a page's first row, the page not kept", []int32{0}, []int32{128}, [][]int32{table(4, 9, -1)}, []chunkEntry{{at: 0, rows: 1, position: 128, before: 9, first: -1, next: -1}}, 1},
		{"sequences by slot, then rows without one", []int32{-1, 2, 0, -1, 2}, []int32{5, 70, 1, 5, 69}, [][]int32{table(3), nil, table(5, 6)},
			[]chunkEntry{{at: 0, rows: 1, position: 1, before: -1, first: 3, next: -1}, {at: 1, rows: 2, position: 69, before: 5, first: 6, next: -1}, {at: 3}, {at: 4}}, 2},
		{"no sequence at all", []int32{-1, -1}, []int32{5, 5}, nil, []chunkEntry{{at: 0}, {at: 1}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openFake(t, newFake())
			memory, err := d.NewDelta(compute.DeltaShape{Layers: 1, KeyHeads: 1, ValueHeads: 1, HeadDim: 128, Taps: 4, Format: d.DeltaFormat()}, 10)
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			var b compute.Batch
			for i, slot := range c.slots {
				b.Add(0, int(c.positions[i]), int(slot), false)
			}
			var got []chunkEntry
			d.compute(t, func(s *step) compute.Tensor {
				in := s.histories(&b, compute.Delta{Memory: memory, Tables: c.tables})
				if in.longest != c.longest {
					t.Errorf("the longest chunk has %d rows, want %d", in.longest, c.longest)
				}
				for _, c := range s.inputs.chunks {
					if in.at >= c.at && in.at < c.at+pointer(len(c.host[s.inputs.place])) {
						got = slices.Clone(unsafe.Slice((*chunkEntry)(unsafe.Pointer(&c.host[s.inputs.place][in.at-c.at])), b.Rows()))
					}
				}
				return compute.Tensor{}
			})
			want := c.chunks
			for len(want) < b.Rows() {
				want = append(want, chunkEntry{at: -1})
			}
			if !slices.Equal(got, want) {
				t.Errorf("chunks %v, want %v", got, want)
			}
		})
	}
}

// launchedDelta is the kernels of delta nets in a device's last step.
func launchedDelta(d *Device) (names []string) {
	for _, l := range d.step.launches {
		if strings.HasPrefix(l.kernel.name, "delta_") {
			names = append(names, l.kernel.name)
		}
	}
	return names
}

func TestChunksOfFewRowsAreOneKernelAndPaddingNoOther(t *testing.T) {
	d := openFake(t, newFake())
	m := newHybrid(t, d, 64, false, 3)
	defer m.close()
	run := func(rows, sequences, idle int) []launch {
		if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsFrom(3, rows, sequences, idle)) }); err != nil {
			t.Fatal(err)
		}
		return d.step.launches
	}
	for _, c := range []struct {
		rows, sequences, idle int
		want                  string // of a layer
	}{
		{1, 17, 0, "delta_few_128"}, {1, 64, 0, "delta_few_128"}, {16, 4, 0, "delta_few_128"}, {5, 3, 2, "delta_few_128"}, {1, 0, 20, "delta_few_128"},
		{1, 16, 0, "delta_convolve delta_rule_128"}, {17, 1, 0, "delta_convolve delta_rule_128"}, {17, 4, 0, "delta_convolve delta_rule_128"},
	} {
		run(c.rows, c.sequences, c.idle)
		if got, want := strings.Join(launchedDelta(d), " "), c.want+" "+c.want; got != want {
			t.Errorf("%d rows of %d sequences and %d of none: two layers are %s, want %s", c.rows, c.sequences, c.idle, got, want)
		}
	}
	all := slices.Clone(run(1, 64, 0))
	if fewer := run(1, 60, 4); !slices.Equal(all, fewer) {
		t.Error("60 sequences and 4 rows of padding are launched unlike 64 sequences")
	}
}

// Rows of many sequences, few of each, by the kernel for them and by those for any: what they give, and what pages hold afterwards.
func TestFewRowsOfManySequencesHaveTheBitsOfThePromptsKernels(t *testing.T) {
	d := gpu(t)
	if d.target != "sm_90a" {
		t.Skip("the kernel for few rows is for Hopper")
	}
	begins := []int{0, 1, 7, 8, 15, 16, 40, 55, 60, 62, 63, 64, 65, 127, 128}
	for _, c := range []struct {
		keys, values, taps, sequences, most, padding, steps int // most: rows of a sequence
		grouped, forgets                                    bool
	}{
		{2, 4, 4, 17, 1, 0, 20, false, false}, {2, 4, 4, 64, 1, 0, 20, true, false}, {2, 6, 3, 80, 1, 7, 20, true, false}, {1, 3, 5, 40, 2, 3, 20, false, false},
		{2, 4, 4, 16, 8, 0, 10, true, false}, {2, 4, 4, 9, 16, 5, 10, false, false}, {3, 6, 4, 20, 8, 2, 20, true, true}, {2, 2, 4, 30, 1, 1, 20, false, true},
		{16, 32, 4, 17, 1, 2, 5, true, false}, {16, 32, 4, 6, 8, 0, 5, false, false}, {16, 48, 4, 17, 4, 0, 5, true, false}, {16, 48, 4, 17, 1, 0, 5, false, true},
	} {
		t.Run(fmt.Sprintf("%d of %d heads, %d sequences of up to %d rows, %d idle, grouped %v, forgets %v", c.keys, c.values, c.sequences, c.most, c.padding, c.grouped, c.forgets), func(t *testing.T) {
			shape := compute.DeltaShape{Layers: 2, KeyHeads: c.keys, ValueHeads: c.values, HeadDim: deltaFewDim, Taps: c.taps}
			got := newDeltaLayer(t, d, shape, c.sequences, min(128+c.steps*c.most, 192), 3*c.sequences, c.grouped)
			got.padding = c.padding
			want := *got
			var err error
			if want.memory, err = d.NewDelta(got.shape, got.memory.Pages()); err != nil {
				t.Fatal(err)
			}
			defer want.memory.Close()
			want.tables = make([][]int32, c.sequences)
			n := got.shape.PageBytes()
			page, other := make([]byte, n), make([]byte, n)
			for i := range got.memory.Pages() {
				if err := errors.Join(got.memory.Write(i, page), want.memory.Write(i, page)); err != nil {
					t.Fatal(err)
				}
			}
			rng := rand.New(rand.NewPCG(uint64(c.sequences), uint64(c.most)))
			at := make([]int, c.sequences)
			for step := range c.steps {
				var cuts []cut
				total := 1 + c.padding
				for s := range at {
					n := 1 + rng.IntN(c.most)
					if step == 0 {
						n = begins[(s+c.most)%len(begins)]
					}
					if n = min(n, got.rows-at[s]); n > 0 {
						cuts, total = append(cuts, cut{s, at[s], at[s] + n}), total+n
					}
				}
				got.forgets, want.forgets = step > 0 && c.forgets, step > 0 && c.forgets
				seed, name := rng.Uint64(), fmt.Sprintf("step %d, %d rows", step, total)
				d.step.plain = true
				w := want.step(t, rand.New(rand.NewPCG(seed, 1)), cuts...)
				d.step.plain = step == 0
				g := got.step(t, rand.New(rand.NewPCG(seed, 1)), cuts...)
				d.step.plain = false
				if used := slices.Equal(launchedDelta(d), []string{"delta_few_128"}); used != (step > 0 && total > deltaFewRows) {
					t.Fatalf("%s: by the kernel for few rows: %v", name, used)
				}
				bitsEqual(t, name+": a row without a sequence", got.idle, make([]float32, len(got.idle)))
				for i, c := range cuts {
					for r := range w[i] {
						bitsEqual(t, fmt.Sprintf("%s: sequence %d, position %d", name, c.sequence, c.from+r), g[i][r], w[i][r])
					}
					for j, number := range got.tables[c.sequence] {
						if number < 0 || step%5 != 0 && j < c.from/compute.Page {
							continue
						}
						if err := errors.Join(got.memory.Read(int(number), page), want.memory.Read(int(number), other)); err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(page, other) {
							t.Errorf("%s: page %d of sequence %d, from position %d, keeps other bytes", name, j, c.sequence, c.from)
						}
					}
					at[c.sequence] = c.to
					if begun := (c.from + compute.Page - 1) / compute.Page * compute.Page; got.forgets && begun < c.to {
						at[c.sequence] = begun // the rows of a page that was not kept come again
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}
