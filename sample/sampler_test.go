package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var inf = float32(math.Inf(1))

// pick draws a token.
func pick(t testing.TB, s *Sampler, p Params, row []float32, position int) int32 {
	t.Helper()
	picked := s.Draw(row, Draw{Params: p, Position: position})
	if picked.Err != nil {
		t.Fatal(picked.Err)
	}
	return picked.Token
}

// keptBy is what filters keep, in the order of candidates; nil where none is on.
func keptBy(p Params, row []float32) []candidate {
	d := Draw{Params: p}
	plan := d.Plan(len(row))
	if len(plan.Filters()) == 0 {
		return nil
	}
	best, _ := argmax(row, Largest)
	kept := slices.Clone(new(Sampler).filter(&d, plan, row, row[best]))
	slices.SortFunc(kept, compare)
	return kept
}

// randomRow has the spread of a language model's logits, with ties when grain > 0.
func randomRow(r *rand.Rand, vocab int, grain float64) []float32 {
	row := make([]float32, vocab)
	for i := range row {
		x := 3 * r.NormFloat64()
		if grain > 0 {
			x = math.Round(x/grain) * grain
		}
		row[i] = float32(x)
	}
	return row
}

func TestGreedyTakesTheFirstOfTheLargest(t *testing.T) {
	var s Sampler
	for _, c := range []struct {
		row  []float32
		want int32
	}{
		{[]float32{1, 3, 3, 2}, 1},
		{[]float32{-inf, -5, -inf}, 1},
		{[]float32{0, float32(math.Copysign(0, -1))}, 0},
		{[]float32{-7}, 0},
	} {
		if got := pick(t, &s, Params{TopK: 1, TopP: 0.1, MinP: 0.5, Seed: 9}, c.row, 0); got != c.want {
			t.Errorf("%v: token %d, want %d", c.row, got, c.want)
		}
	}
}

func TestBrokenRowsAreRefused(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name string
		row  []float32
		want string
	}{
		{"all NaN", []float32{nan, nan}, "token 0 is NaN"},
		{"one NaN after larger logits", []float32{5, 1, nan}, "token 2 is NaN"},
		{"+Inf", []float32{5, inf, 1}, "token 1 is +Inf"},
		{"all banned", []float32{-inf, -inf}, "all 2 logits are -Inf"},
		{"empty", nil, "all 0 logits"},
	} {
		for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 1, TopK: 1}} {
			if err := new(Sampler).Draw(c.row, Draw{Params: p, Position: 12}).Err; err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "position 12") {
				t.Errorf("%s: %+v: error %v, want %q", c.name, p, err, c.want)
			}
		}
		if _, err := LogProbs(c.row); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: LogProbs: error %v, want %q", c.name, err, c.want)
		}
	}
}

// plainPick is the definition, without any shortcut: sort, filter, score every survivor.
func plainPick(p Params, row []float32, position int) (int32, []candidate) {
	var all []candidate
	for i, x := range row {
		if !math.IsInf(float64(x), -1) {
			all = append(all, candidate{x, int32(i)})
		}
	}
	slices.SortFunc(all, compare)
	e := func(c candidate) float64 {
		return math.Exp((float64(c.logit) - float64(all[0].logit)) / float64(p.Temperature))
	}
	kept := all
	if p.TopK > 0 {
		kept = kept[:min(p.TopK, len(kept))]
	}
	if p.TopP > 0 && p.TopP < 1 {
		units := func(c candidate) int64 {
			return int64(math.Floor(exp((float64(c.logit)-float64(all[0].logit))/float64(p.Temperature)) * (1 << 44)))
		}
		total, sum := int64(0), int64(0)
		for _, c := range kept {
			total += units(c)
		}
		for i, c := range kept {
			if sum += units(c); float64(sum) >= float64(p.TopP)*float64(total) {
				kept = kept[:i+1]
				break
			}
		}
	}
	kept = slices.DeleteFunc(slices.Clone(kept), func(c candidate) bool { return e(c) < float64(p.MinP) })
	best, token := math.Inf(-1), int32(math.MaxInt32)
	for _, c := range kept {
		y := float64(c.logit)/float64(p.Temperature) + Noise(p.Seed, position, c.token)
		if y > best || y == best && c.token < token {
			best, token = y, c.token
		}
	}
	return token, kept
}

func TestDrawAgreesWithItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, p := range []Params{
		{Temperature: 1},
		{Temperature: 0.1},
		{Temperature: 30},
		{Temperature: 1e-30},
		{Temperature: 1, TopK: 1},
		{Temperature: 1, TopK: 40},
		{Temperature: 1.5, TopK: 5000},
		{Temperature: 1, TopP: 0.9},
		{Temperature: 5, TopP: 0.999},
		{Temperature: 1, TopP: 1e-6},
		{Temperature: 1, MinP: 0.05},
		{Temperature: 4, MinP: 1},
		{Temperature: 2, TopK: 100, TopP: 0.8},
		{Temperature: 2, TopK: 100, MinP: 0.1},
		{Temperature: 2, TopP: 0.9, MinP: 0.1},
		{Temperature: 2, TopK: 50, TopP: 0.95, MinP: 0.02},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			for i := range 60 {
				p.Seed = r.Uint64()
				row := randomRow(r, 1+r.IntN(2000), []float64{0, 0.5, 100}[i%3])
				for range i % 7 {
					row[r.IntN(len(row))] = -inf
				}
				if _, err := argmax(row, Largest); err != nil {
					continue
				}
				before := slices.Clone(row)
				var s Sampler
				want, kept := plainPick(p, row, i)
				if got := pick(t, &s, p, row, i); got != want {
					t.Fatalf("row %d of %d logits: token %d, want %d", i, len(row), got, want)
				}
				if got := keptBy(p, row); got != nil {
					if !slices.Equal(got, kept) {
						t.Fatalf("row %d: %d tokens kept, want %d", i, len(got), len(kept))
					}
				}
				if !slices.Equal(row, before) {
					t.Fatal("Draw changed the row")
				}
			}
		})
	}
}

func TestTiesOnABoundaryGoToTheSmallerTokens(t *testing.T) {
	row := []float32{1, 2, 2, 2, 0}
	for _, c := range []struct {
		p    Params
		want []candidate
	}{
		{Params{Temperature: 1, TopK: 2}, []candidate{{2, 1}, {2, 2}}},
		{Params{Temperature: 1, TopP: 0.3}, []candidate{{2, 1}, {2, 2}}},
		{Params{Temperature: 1, TopK: 3, TopP: 0.5}, []candidate{{2, 1}, {2, 2}}},
		{Params{Temperature: 1, MinP: 1}, []candidate{{2, 1}, {2, 2}, {2, 3}}},
	} {
		if got := keptBy(c.p, row); !slices.Equal(got, c.want) {
			t.Errorf("%+v keeps %v, want %v", c.p, got, c.want)
		}
	}
}

// Chi-square over the seeds: each cell's expected count from the softmax in float64.
func TestFrequenciesFollowTheSoftmax(t *testing.T) {
	row := []float32{0, 1, 2, -1, 0.5, 1.5, -2, 0}
	for _, p := range []Params{{Temperature: 1}, {Temperature: 0.7}, {Temperature: 2, TopK: 5}, {Temperature: 1, TopP: 0.9}} {
		const draws = 60_000
		_, kept := plainPick(p, row, 0)
		weight, total := map[int32]float64{}, 0.0
		for _, c := range kept {
			weight[c.token] = math.Exp(float64(c.logit) / float64(p.Temperature))
			total += weight[c.token]
		}
		for _, vary := range []string{"seed", "position"} {
			count := map[int32]float64{}
			for i := range draws {
				position := 5
				p.Seed = uint64(i)
				if vary == "position" {
					p.Seed, position = 77, i
				}
				count[pick(t, new(Sampler), p, row, position)]++
			}
			chi := 0.0
			for token, w := range weight {
				want := draws * w / total
				chi += (count[token] - want) * (count[token] - want) / want
			}
			// 99.9 % of the chi-square distribution with 7 degrees of freedom is below 24.3; fewer cells, lower still.
			if chi > 24.3 {
				t.Errorf("%+v, varying %s: chi-square %.1f over %d tokens, want at most 24.3", p, vary, chi, len(weight))
			}
		}
	}
}

// R4: what a row gives depends on the row, the position and the parameters alone.
func TestDrawRemembersNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	p := Params{Temperature: 1, TopP: 0.95, Seed: 3}
	shared := new(Sampler)
	rows := make([][]float32, 20)
	want := make([]int32, len(rows))
	for i := range rows {
		rows[i] = randomRow(r, 100+r.IntN(400), 0)
		want[i] = pick(t, new(Sampler), p, rows[i], 1000+i)
	}
	for range 200 {
		i := r.IntN(len(rows))
		if got := pick(t, shared, p, rows[i], 1000+i); got != want[i] {
			t.Fatalf("row %d in company: token %d, alone %d", i, got, want[i])
		}
	}
	differ := 0
	for i := range rows {
		if pick(t, shared, p, rows[i], 2000+i) != want[i] {
			differ++
		}
	}
	if differ == 0 {
		t.Error("the position changes nothing")
	}
}

func BenchmarkDraw(b *testing.B) {
	row := randomRow(rand.New(rand.NewPCG(1, 1)), 262_144, 0)
	for _, c := range []struct {
		name string
		p    Params
	}{
		{"greedy", Params{}},
		{"T=1", Params{Temperature: 1}},
		{"k=40", Params{Temperature: 0.7, TopK: 40}},
		{"p=0.95", Params{Temperature: 1, TopP: 0.95}},
		{"min=0.05", Params{Temperature: 1, MinP: 0.05}},
		{"k=64,p=0.95", Params{Temperature: 1, TopK: 64, TopP: 0.95}},
		{"nsigma=1", Params{Temperature: 1, TopNSigma: 1}},
		{"typical=0.9", Params{Temperature: 1, Typical: 0.9}},
		{"xtc", Params{Temperature: 1, XTC: XTC{1, 0.001}}},
		{"k=64,typical=0.9,p=0.95,xtc", Params{Temperature: 1, TopK: 64, Typical: 0.9, TopP: 0.95, XTC: XTC{1, 0.01}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s Sampler
			for i := range b.N {
				pick(b, &s, c.p, row, i)
			}
		})
	}
	b.Run("greedy with 1000 penalties", func(b *testing.B) {
		d := Draw{}
		for i := range 1000 {
			d.Adjust = append(d.Adjust, Adjustment{Token: int32(200 * i), Add: -1})
		}
		var s Sampler
		for range b.N {
			s.Draw(row, d)
		}
	})
	b.Run("LogProbs", func(b *testing.B) {
		for range b.N {
			if _, err := LogProbs(row); err != nil {
				b.Fatal(err)
			}
		}
	})
}
