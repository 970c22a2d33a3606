package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestDrawsThatNoRowCouldAnswerAreRefused(t *testing.T) {
	for _, c := range []struct {
		d    Draw
		want string // "" for none
	}{
		{Draw{Top: MaxTop, Given: true, Token: 9}, ""},
		{Draw{Token: 10}, ""}, // not given
		{Draw{Given: true, Token: 10}, "given token 10, want 0 to 9"},
		{Draw{Given: true, Token: -1}, "given token -1"},
		{Draw{Top: MaxTop + 1}, "1025 of the likeliest tokens"},
		{Draw{Top: -1}, "-1 of the likeliest tokens"},
		{Draw{Params: Params{TopK: -1}}, "top-k"},
	} {
		err := c.d.Check(10)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one about %q", c.d, err, c.want)
		}
	}
}

func TestDrawsReportTheLogProbabilitiesOfTheRawRow(t *testing.T) {
	row := randomRow(rand.New(rand.NewPCG(31, 32)), 9000, 0.25)
	q, err := LogProbs(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Draw{
		{LogProb: true},
		{LogProb: true, Top: 5},
		{Top: 7},
		{Given: true, Token: 8191, LogProb: true, Top: 3},
		{Params: Params{Temperature: 1, Seed: 4}, LogProb: true},
		{Params: Params{Temperature: 2, TopK: 30, TopP: 0.9, Seed: 5}, LogProb: true, Top: 40},
		{Params: Params{Temperature: 1}},
	} {
		p := new(Sampler).Draw(row, d)
		if d.Given && p.Token != d.Token {
			t.Errorf("%+v: token %d, want the given one", d, p.Token)
		}
		want := float32(0)
		if d.LogProb {
			want = q.Of(p.Token)
		}
		if p.Err != nil || p.LogProb != want || !slices.Equal(p.Top, q.Top(d.Top)) {
			t.Errorf("%+v: %+v, want log-probability %v and %v", d, p, want, q.Top(d.Top))
		}
	}
}

func TestARefusedRowSaysWhatIsWrongWithIt(t *testing.T) {
	p := new(Sampler).Draw([]float32{1, inf, 2}, Draw{Position: 4})
	var e *RowError
	if !errors.As(p.Err, &e) || *e != (RowError{Inf, 1, 3}) {
		t.Errorf("%v, want a RowError of token 1", p.Err)
	}
}

// The order of additions in the words of LogProbs: devices must keep it.
func TestLogProbsAddInTheStatedOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, vocab := range []int{1, 255, 257, 4096, 4097, 50_000} {
		row := randomRow(r, vocab, 0)
		best, _ := argmax(row, Largest)
		total := 0.0
		for first := 0; first < vocab; first += 4096 {
			var sums [256]float64
			for i := first; i < min(first+4096, vocab); i++ {
				sums[i%256] += exp(float64(row[i]) - float64(row[best]))
			}
			var fold func(s []float64) float64
			fold = func(s []float64) float64 {
				if len(s) == 1 {
					return s[0]
				}
				half := make([]float64, len(s)/2)
				for i := range half {
					half[i] = s[i] + s[i+len(half)]
				}
				return fold(half)
			}
			total += fold(sums[:])
		}
		if q, _ := LogProbs(row); q.logSum != log(total) {
			t.Errorf("vocabulary of %d: %v, want %v", vocab, q.logSum, log(total))
		}
	}
}

// Dropping less than a unit a token moves no boundary by more than the units dropped.
func TestTopPKeepsTheShareOfTheExactSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	for i := range 40 {
		row := randomRow(r, 20_000, 0)
		p := Params{Temperature: 0.5 + 3*r.Float32(), TopP: r.Float32()}
		best, _ := argmax(row, Largest)
		w := func(x float32) float64 {
			return math.Exp((float64(x) - float64(row[best])) / float64(p.Temperature))
		}
		total, kept, last := 0.0, 0.0, inf
		for _, x := range row {
			total += w(x)
		}
		for _, c := range keptBy(p, row) {
			kept += w(c.logit)
			last = min(last, c.logit)
		}
		if share := float64(p.TopP); kept/total < share-1e-8 || (kept-w(last))/total > share+1e-8 {
			t.Errorf("draw %d: %+v keeps %v of the probability, %v without the last token", i, p, kept/total, (kept-w(last))/total)
		}
	}
}
