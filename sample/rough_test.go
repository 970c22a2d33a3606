package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// What is known roughly decides nothing: the token is that of the row as it is, with few looks at it.
func TestRoughLogitsGiveTheTokenOfTheExactOnes(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	var s Sampler
	looks, rows := 0, 0
	for round := range 3000 {
		vocab := 1 + rng.IntN(3000)
		slack := math.Pow(10, float64(rng.IntN(5)-4))
		exact, rough := make([]float32, vocab), make([]float32, vocab)
		for i := range exact {
			exact[i] = float32(4 * rng.NormFloat64())
			if rng.IntN(4) == 0 { // ties
				exact[i] = float32(math.Round(float64(exact[i])))
			}
			if rng.IntN(50) == 0 {
				exact[i] = float32(math.Inf(-1))
			}
			rough[i] = exact[i] + float32(slack*(1.98*rng.Float64()-0.99))
		}
		exact[rng.IntN(vocab)] = 3
		d := Draw{Params: Params{Temperature: []float32{0, 0.01, 0.7, 1, 5}[round%5], Seed: rng.Uint64()}, Position: rng.IntN(1 << 40)}
		if !d.Rough() {
			t.Fatalf("%+v is not for rough logits", d)
		}
		for i, x := range exact { // what was just set
			if math.Abs(float64(x-rough[i])) > slack || math.IsInf(float64(x), -1) {
				rough[i] = x
			}
		}
		last := int32(-1)
		got, ok := s.DrawRough(rough, slack, d, func(token int32) float32 {
			if token <= last {
				t.Fatalf("token %d is asked for after %d", token, last)
			}
			last, looks = token, looks+1
			return exact[token]
		})
		if want := new(Sampler).Draw(exact, d); !ok || got.Token != want.Token {
			t.Fatalf("round %d: token %d, %v, want %d (of %d, slack %g, temperature %g)", round, got.Token, ok, want.Token, vocab, slack, d.Temperature)
		}
		rows++
	}
	if looks > 100*rows {
		t.Errorf("%d looks at exact logits for %d rows: that is no saving", looks, rows)
	}
}

func TestRoughLogitsOfABrokenRowAreRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, c := range map[string]struct {
		rough, exact []float32
		slack        float64
	}{
		"NaN":             {[]float32{1, nan, 2}, nil, 0.1},
		"infinity":        {[]float32{1, inf, 2}, nil, 0.1},
		"nothing":         {[]float32{-inf, -inf}, nil, 0.1},
		"no bound":        {[]float32{1, 2}, nil, math.NaN()},
		"infinite bound":  {[]float32{1, 2}, nil, math.Inf(1)},
		"NaN at a look":   {[]float32{1, 2}, []float32{1, nan}, 0.1},
		"infinite at one": {[]float32{1, 2}, []float32{1, inf}, 0.1},
	} {
		if p, ok := new(Sampler).DrawRough(c.rough, c.slack, Draw{}, func(token int32) float32 { return c.exact[token] }); ok {
			t.Errorf("%s: token %d, want a refusal", name, p.Token)
		}
	}
}

func TestDrawsThatLookAtMoreThanTheLargestAreNotRough(t *testing.T) {
	all := []Draw{
		{Given: true}, {LogProb: true}, {Top: 1}, {Adjust: []Adjustment{{Token: 1, Add: 1}}},
		{Params: Params{Temperature: 1, TopK: 5}}, {Params: Params{Temperature: 1, TopP: 0.9}}, {Params: Params{Temperature: 1, MinP: 0.1}},
	}
	if i := slices.IndexFunc(all, func(d Draw) bool { return d.Rough() }); i >= 0 {
		t.Errorf("%+v is called rough", all[i])
	}
	for _, d := range []Draw{{}, {Params: Params{TopK: 5, TopP: 0.9}}, {Params: Params{Temperature: 0.6}}} { // the filters of a greedy draw pass nothing
		if !d.Rough() {
			t.Errorf("%+v is not called rough", d)
		}
	}
}
