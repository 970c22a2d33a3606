package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/sample"
)

// Every row asks for something else, on any number of threads.
func TestDrawsAreThoseOfPackageSample(t *testing.T) {
	const rows, vocab = 17, 5000
	rng := rand.New(rand.NewPCG(61, 62))
	for _, threads := range []int{1, 2, 5} {
		d := openTest(t, threads, sets[0])
		for range 3 {
			var draws []sample.Draw
			for i := range rows {
				w := sample.Draw{Params: sample.Params{Temperature: 2 * rng.Float32(), Seed: rng.Uint64()}, Position: rng.IntN(1000), LogProb: i%2 == 0, Top: i % 5}
				switch i % 6 {
				case 0:
					w.Temperature = 0
				case 1:
					w.Given, w.Token = true, rng.Int32N(vocab)
				case 2:
					w.TopK, w.TopP = 50, 0.9
				case 3:
					w.TopP, w.MinP = 0.95, 0.01
				case 4:
					w.Typical, w.XTC = 0.9, sample.XTC{Probability: 1, Threshold: 0.001}
				case 5:
					w.Adjust, w.Filtered = []sample.Adjustment{{Token: 9, Add: 3}, {Token: 4, Add: -1}}, true
				}
				draws = append(draws, w)
			}
			var logits []float32
			picks, err := d.Sample(func(ops compute.Ops) compute.Tensor {
				x, m := drawn(ops.(*step), rng, rows, vocab)
				m.rows[3*vocab+7] = float32(math.NaN()) // in company
				logits = append(logits, m.rows...)
				return x
			}, draws)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range picks {
				want := new(sample.Sampler).Draw(logits[i*vocab:][:vocab], draws[i])
				if (want.Err != nil) != (i == 3) || fmt.Sprint(got.Err) != fmt.Sprint(want.Err) {
					t.Errorf("row %d: error %v, want %v", i, got.Err, want.Err)
				}
				got.Err, want.Err = nil, nil
				if !reflect.DeepEqual(got, want) {
					t.Errorf("row %d, %d threads, %+v: %+v, want %+v", i, threads, draws[i], got, want)
				}
			}
		}
	}
}

func TestDrawsThatDoNotFitTheLogitsAreRefused(t *testing.T) {
	d := openTest(t, 1, sets[0])
	for _, c := range []struct {
		draws []sample.Draw
		want  string
	}{
		{nil, "0 draws from 2 rows"},
		{make([]sample.Draw, 3), "3 draws from 2 rows"},
		{[]sample.Draw{{}, {Given: true, Token: 32}}, "draw 1: sample: given token 32, want 0 to 31"},
	} {
		_, err := d.Sample(func(ops compute.Ops) compute.Tensor {
			x, _ := ops.(*step).tensor(2, 32)
			return x
		}, c.draws)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestTheLargestIsFoundWhereverItIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, k := range sets {
		for _, n := range []int{0, 1, 15, 16, 17, 48, 100, 256} {
			for round := range 4 * n {
				x := make([]float32, n)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
					if rng.IntN(3) == 0 {
						x[i] = -inf
					}
				}
				x[round/4] = []float32{7, inf, nan, -inf}[round%4]
				if got, want := k.largest(x), sample.Largest(x); got != want && (got == got || want == want) {
					t.Fatalf("%s: %v at %d of %d: %v, want %v", k.name, x[round/4], round/4, n, got, want)
				}
			}
			if got := k.largest(slices.Repeat([]float32{-inf}, n)); got != -inf {
				t.Errorf("%s: of %d times -Inf: %v", k.name, n, got)
			}
		}
	}
}
