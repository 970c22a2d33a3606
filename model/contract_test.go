package model_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/check"
	"memra/internal/tiny"
	"memra/model"
)

// The contract (docs/contract.md, R1 to R3): a row's logits depend on its tokens alone. Here random schedules of several
// sequences run: rows merged in one step or alone, in any order, beside padding, in chunks cut anywhere, on one to eight
// threads, with assembly or without. Every logit's bits are compared with each sequence computed alone in one step.

// openDevice opens a device of so many threads, with assembly or without.
func openDevice(t *testing.T, threads int, plain bool) *cpu.Device {
	t.Helper()
	open := cpu.Open
	if plain {
		open = cpu.OpenPlain
	}
	d, err := open(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// bound is a model on a device, with room for the sequences of a test.
func bound(t *testing.T, d compute.Device, src model.Source) *check.Bound {
	t.Helper()
	b, err := check.Bind(d, src, 2000, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// logits unwraps what a schedule gave.
func logits(t *testing.T) func(check.Logits, error) check.Logits {
	return func(l check.Logits, err error) check.Logits {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
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
				tokens := check.RandomTokens(rng, tiny.Vocab, lengths...)
				want := logits(t)(bound(t, openDevice(t, 1, false), src).Alone(tokens))
				for plan := range 3 {
					threads, plain := 1+rng.IntN(8), rng.IntN(4) == 0
					got := logits(t)(bound(t, openDevice(t, threads, plain), src).Drawn(rng, tokens))
					if diff := check.Difference(got, want); diff != "" {
						t.Fatalf("plan %d (%d threads, plain Go %v): %s", plan, threads, plain, diff)
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

// spoiled is a device with the planted fault.
type spoiled struct{ *cpu.Device }

func (d spoiled) Run(forward func(compute.Ops) compute.Tensor) ([][]float32, error) {
	return d.Device.Run(func(ops compute.Ops) compute.Tensor { return forward(batchSum{ops}) })
}

func TestScheduleTestSeesARowCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	tokens := check.RandomTokens(rng, tiny.Vocab, 40, 3)
	b := bound(t, spoiled{openDevice(t, 1, false)}, tiny.Llama(1, gguf.Q8_0))
	want := logits(t)(b.Alone(tokens))
	if check.Difference(logits(t)(b.Drawn(rng, tokens)), want) == "" {
		t.Fatal("a norm that depends on the number of rows went unseen")
	}
}
