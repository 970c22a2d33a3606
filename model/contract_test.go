package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
	"memra/state"
)

// The contract (docs/contract.md, R1 to R3): a row's logits depend on its tokens alone. Here random schedules of several
// sequences run: rows merged in one step or alone, in any order, beside padding, in chunks cut anywhere, on one to eight
// threads, with assembly or without. Every logit's bits are compared with each sequence computed alone in one step.

// schedule is how a set of sequences is computed: steps of rows.
type schedule struct {
	threads int
	plain   bool // without assembly
	steps   [][]row
}

// row is a token of a sequence; sequence -1 pads.
type row struct{ sequence, position int }

// alone computes each sequence by itself, whole.
func alone(lengths []int) schedule {
	s := schedule{threads: 1}
	for i, n := range lengths {
		var step []row
		for p := range n {
			step = append(step, row{i, p})
		}
		s.steps = append(s.steps, step)
	}
	return s
}

// draw makes a random schedule of the same sequences.
func draw(rng *rand.Rand, lengths []int) schedule {
	s := schedule{threads: 1 + rng.IntN(8), plain: rng.IntN(4) == 0}
	at := make([]int, len(lengths))
	for left := true; left; {
		left = false
		var step []row
		for i, n := range lengths {
			take := min(n-at[i], []int{0, 1, 1, 2, 7, 16, 64, 100}[rng.IntN(8)])
			for range take {
				step = append(step, row{i, at[i]})
				at[i]++
			}
			left = left || at[i] < n
		}
		for range rng.IntN(3) {
			step = append(step, row{-1, rng.IntN(50)})
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(step), func(i, j int) { step[i], step[j] = step[j], step[i] })
		}
		if len(step) > 0 {
			s.steps = append(s.steps, step)
		}
	}
	return s
}

// run computes a schedule and returns the logits of every row of every sequence.
func run(t *testing.T, src model.Source, tokens [][]int32, s schedule, spoil func(ops compute.Ops) compute.Ops) [][][]float32 {
	t.Helper()
	open := cpu.Open
	if s.plain {
		open = cpu.OpenPlain
	}
	d, err := open(s.threads)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: 2000, Sequences: len(tokens), Step: 400})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	sequences, logits := make([]*state.Sequence, len(tokens)), make([][][]float32, len(tokens))
	for i := range tokens {
		sequences[i], logits[i] = pool.NewSequence(), make([][]float32, len(tokens[i]))
	}
	for _, step := range s.steps {
		var b compute.Batch
		grow := make([]int, len(tokens))
		for _, r := range step {
			if r.sequence < 0 {
				b.Add(int32(r.position), r.position, -1, false)
				continue
			}
			b.Add(tokens[r.sequence][r.position], r.position, r.sequence, true)
			grow[r.sequence]++
		}
		for i, n := range grow {
			if err := sequences[i].Extend(n); err != nil {
				t.Fatal(err)
			}
		}
		view := pool.View(sequences...)
		rows, err := d.Run(func(ops compute.Ops) compute.Tensor {
			if spoil != nil {
				ops = spoil(ops)
			}
			return m.Forward(ops, &b, view)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range step {
			if r.sequence >= 0 {
				logits[r.sequence][r.position] = append([]float32(nil), rows[0]...)
				rows = rows[1:]
			}
		}
	}
	return logits
}

// difference names the first logit whose bits differ, "" if none does.
func difference(got, want [][][]float32) string {
	for i := range want {
		for p := range want[i] {
			for v := range want[i][p] {
				if g, w := got[i][p][v], want[i][p][v]; math.Float32bits(g) != math.Float32bits(w) {
					return fmt.Sprintf("sequence %d position %d logit %d: %v, alone %v", i, p, v, g, w)
				}
			}
		}
	}
	return ""
}

func randomTokens(rng *rand.Rand, lengths []int) [][]int32 {
	tokens := make([][]int32, len(lengths))
	for i, n := range lengths {
		for range n {
			tokens[i] = append(tokens[i], rng.Int32N(tiny.Vocab))
		}
	}
	return tokens
}

func TestScheduleIsInvisible(t *testing.T) {
	lengths := []int{150, 3, 67, 64}
	for _, c := range []struct {
		name string
		make func(seed uint64, format gguf.Type) *tiny.Model
		of   []gguf.Type
	}{
		{"llama", tiny.Llama, []gguf.Type{gguf.Q4_1, gguf.Q8_0, gguf.Q4_K, gguf.F16}},
		{"gemma3", tiny.Gemma3, []gguf.Type{gguf.Q5_0, gguf.Q6_K, gguf.Q5_K, gguf.BF16, gguf.F32}},
	} {
		for n, format := range c.of {
			t.Run(fmt.Sprint(c.name, " in ", format), func(t *testing.T) {
				src, rng := c.make(uint64(n), format), rand.New(rand.NewPCG(uint64(n), 7))
				tokens := randomTokens(rng, lengths)
				want := run(t, src, tokens, alone(lengths), nil)
				for plan := range 3 {
					s := draw(rng, lengths)
					if diff := difference(run(t, src, tokens, s, nil), want); diff != "" {
						t.Fatalf("plan %d (%d threads, %d steps, plain Go %v): %s", plan, s.threads, len(s.steps), s.plain, diff)
					}
				}
			})
		}
	}
}

// batchSum is a backend with a planted fault: the norm of a row depends, in its last bits, on how many rows came with it.
type batchSum struct{ compute.Ops }

func (o batchSum) AddNorm(x, y compute.Tensor, g compute.Vector, eps float32) (s, n compute.Tensor) {
	return o.Ops.AddNorm(x, y, g, eps*(1+float32(x.Rows)))
}

func TestScheduleTestSeesARowCount(t *testing.T) {
	lengths := []int{40, 3}
	src, rng := tiny.Llama(1, gguf.Q8_0), rand.New(rand.NewPCG(3, 7))
	tokens := randomTokens(rng, lengths)
	spoil := func(ops compute.Ops) compute.Ops { return batchSum{ops} }
	want := run(t, src, tokens, alone(lengths), spoil)
	if difference(run(t, src, tokens, draw(rng, lengths), spoil), want) == "" {
		t.Fatal("a norm that depends on the number of rows went unseen")
	}
}
