package model_test

import (
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/check"
	"memra/internal/golden"
	"memra/internal/tiny"
	"memra/model"
	"memra/quantize"
)

// The contract (docs/contract.md, R1 to R3): a row's logits depend on its tokens alone. Here random schedules of several
// sequences run: rows merged in one step or alone, in any order, beside padding, in chunks cut anywhere, with drafts that are
// dropped again and beside forks that go other ways, on one to eight threads, with assembly or without. Every logit's bits are
// compared with each sequence computed alone in one step.

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
	formats := []quantize.Options{{Mix: "Q4_K_M"}, {Mix: "Q8_0"}, {Mix: "Q4_1", Pure: true}, {Mix: "F16"}, {Mix: "Q5_0", Pure: true},
		{Mix: "Q6_K", Pure: true}, {Mix: "BF16"}, {Mix: "Q5_K", Pure: true}, {Mix: "F32"}}
	eachTiny(t, func(t *testing.T, n int, name string, g *golden.Tiny) {
		for i, f := range []quantize.Options{formats[n%2], formats[2+n%7]} { // all of them, over a few models
			src, rng := model.GGUF(quantised(t, model.GGUF(file(t, g.GGUF)), f)), rand.New(rand.NewPCG(uint64(n), uint64(i)))
			tokens := check.RandomTokens(rng, g.Vocab, lengths...)
			want := logits(t)(bound(t, openDevice(t, 1, false), src).Alone(tokens))
			for plan := range 2 {
				threads, plain := 1+rng.IntN(8), rng.IntN(4) == 0
				got := logits(t)(bound(t, openDevice(t, threads, plain), src).Drawn(rng, tokens))
				if diff := check.Difference(got, want); diff != "" {
					t.Fatalf("%s, plan %d (%d threads, plain Go %v): %s", f.Mix, plan, threads, plain, diff)
				}
			}
		}
	})
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
