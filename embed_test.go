package memra

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"memra/compute/cuda"
	"memra/internal/golden"
)

// The oracle is transformers in float64: the residual stream after the last norm.
func TestEmbeddingsAreThoseOfTheOracle(t *testing.T) {
	for _, name := range []string{"llama-plain", "gemma2-plain", "gemma3-plain", "gemma4-dense", "granite-plain", "qwen35-plain", "gptoss-plain", "qwen3moe-plain"} {
		t.Run(name, func(t *testing.T) {
			g, err := golden.LoadTiny("model/testdata/tiny/" + name)
			if err != nil {
				t.Fatal(err)
			}
			p := g.Prompts[0]
			final := p.Hidden[len(p.Hidden)-1]
			for _, device := range []string{"cpu", "cuda"} {
				if device == "cuda" && cuda.Available() != nil {
					continue
				}
				m := openTiny(t, name, Options{Device: device})
				for i, position := range p.Positions {
					got, err := m.Embed(t.Context(), p.Tokens[:position+1], Last)
					if err != nil {
						t.Fatal(err)
					}
					if d := distance(got, final[i]); len(got) != len(final[i]) || d > 0.03 {
						t.Errorf("%s, position %d: %v of the length away from the oracle's", device, position, d)
					}
				}
			}
		})
	}
}

// distance is how far a is from b, as a share of b's length.
func distance(a, b []float32) float64 {
	var off, length float64
	for i := range b {
		off += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		length += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(off / length)
}

func TestTheMeanIsThatOfAllTokens(t *testing.T) {
	m := openTiny(t, "qwen35-plain", Options{Device: "cpu"})
	tokens := m.Tokenize("Then the thin rain ended, and in the morning the others went in to see what was left of it all.")
	want := make([]float64, 0)
	for i := range tokens {
		row, err := m.Embed(t.Context(), tokens[:i+1], Last)
		if err != nil {
			t.Fatal(err)
		}
		for j, x := range row {
			if i == 0 {
				want = append(want, 0)
			}
			want[j] += float64(x)
		}
	}
	got, err := m.Embed(t.Context(), tokens, Mean)
	if err != nil {
		t.Fatal(err)
	}
	for j, x := range got {
		if want := float32(want[j] / float64(len(tokens))); x != want {
			t.Errorf("value %d is %v, want %v, bit for bit", j, x, want)
		}
	}
}

func TestEmbeddingsDoNotDependOnCompanyNorOnSteps(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Device: "cpu"})
	tokens := m.Tokenize("Then the thin rain ended, and the others went in.")
	want, err := m.Embed(t.Context(), tokens, Mean)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			if _, err := m.Answers(t.Context(), Request{Prompt: fmt.Sprint("Then ", i), MaxTokens: 20}); err != nil {
				t.Error(err)
			}
		})
		wait.Go(func() {
			if got, err := m.Embed(t.Context(), tokens, Mean); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v, alone %v", got, err, want)
			}
		})
	}
	wait.Wait()
	small := openTiny(t, "llama-plain", Options{Device: "cpu"})
	small.step = 5
	if got, err := small.Embed(t.Context(), tokens, Mean); err != nil || !slices.Equal(got, want) {
		t.Errorf("in steps of five rows %v, %v, want %v", got, err, want)
	}
}

func TestWhatCannotBeEmbeddedSaysWhy(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Device: "cpu", Context: 64})
	var told *RequestError
	for _, tokens := range [][]int32{{}, make([]int32, 65), {99999}} {
		if _, err := m.Embed(t.Context(), tokens, Mean); !errors.As(err, &told) {
			t.Errorf("%d tokens: error %v, want a RequestError", len(tokens), err)
		}
	}
	if _, err := m.Embed(t.Context(), []int32{1}, 7); !errors.As(err, &told) {
		t.Errorf("pooling 7: error %v, want a RequestError", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Embed(ctx, []int32{1}, Mean); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}
