package sample

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestLogProbsAgreeWithFloat64AndSumToOne(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for i := range 20 {
		row := randomRow(r, 1+r.IntN(5000), 0)
		row[r.IntN(len(row))] = 40 * float32(i)
		d, err := LogProbs(row)
		if err != nil {
			t.Fatal(err)
		}
		// The truth in 200 bits: exp from math.Exp is good to 1e-16 of each term.
		sum := new(big.Float).SetPrec(200)
		for _, x := range row {
			sum.Add(sum, big.NewFloat(math.Exp(float64(x)-d.largest)))
		}
		total, _ := sum.Float64()
		mass := 0.0
		for token, x := range row {
			got, want := d.Of(int32(token)), float64(x)-d.largest-math.Log(total)
			if math.Abs(float64(got)-want) > 1e-7*math.Abs(want)+1e-14 {
				t.Fatalf("token %d: %v, want %v", token, got, want)
			}
			mass += math.Exp(float64(got))
		}
		if math.Abs(mass-1) > 1e-5 {
			t.Errorf("probabilities sum to %v", mass)
		}
	}
}

func TestBannedTokensHaveNoProbability(t *testing.T) {
	d, err := LogProbs([]float32{-inf, 2, -inf})
	if err != nil {
		t.Fatal(err)
	}
	if d.Of(0) != -inf || d.Of(1) != 0 {
		t.Errorf("got %v and %v, want -Inf and 0", d.Of(0), d.Of(1))
	}
	if top := d.Top(3); len(top) != 1 || top[0] != (TokenLogProb{1, 0}) {
		t.Errorf("Top(3) = %v, want token 1 alone", top)
	}
}

func TestTopIsSortedByLogProbThenToken(t *testing.T) {
	d, err := LogProbs([]float32{1, 3, 3, 0, 3})
	if err != nil {
		t.Fatal(err)
	}
	top := d.Top(4)
	for i, want := range []int32{1, 2, 4, 0} {
		if top[i].Token != want || top[i].LogProb != d.Of(want) {
			t.Errorf("place %d: %v, want token %d at %v", i, top[i], want, d.Of(want))
		}
	}
	if d.Top(0) != nil || len(d.Top(99)) != 5 {
		t.Error("Top(0) and Top(99) must give none and all")
	}
}

func TestTemperatureAndFiltersDoNotChangeLogProbs(t *testing.T) {
	row := randomRow(rand.New(rand.NewPCG(1, 9)), 300, 0)
	before, _ := LogProbs(row)
	want := before.Of(17)
	pick(t, new(Sampler), Params{Temperature: 2, TopK: 3}, row, 1)
	if after, _ := LogProbs(row); after.Of(17) != want {
		t.Errorf("%v after a draw, %v before", after.Of(17), want)
	}
}
