package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plainAdjustments is what a history comes to, by the definitions: everything counted anew.
func plainAdjustments(p Params, tokens []int32) map[int32]Adjustment {
	window := func(n int) []int32 {
		if n > 0 && n < len(tokens) {
			return tokens[len(tokens)-n:]
		}
		return tokens
	}
	count := map[int32]int{}
	if p.penalises() {
		for _, t := range window(p.PenaltyLastN) {
			count[t]++
		}
	}
	loses := plainDRY(p.DRY, window(p.DRY.LastN), tokens)
	touched := map[int32]bool{}
	for t := range count {
		touched[t] = true
	}
	for t := range loses {
		touched[t] = true
	}
	for t, b := range p.Bias {
		if b != 0 {
			touched[t] = true
		}
	}
	for _, t := range p.Banned {
		touched[t] = true
	}
	all := map[int32]Adjustment{}
	for t := range touched {
		add := float64(p.Bias[t]) - loses[t]
		if n := count[t]; n > 0 {
			add -= float64(n)*float64(p.FrequencyPenalty) + float64(p.PresencePenalty)
		}
		if slices.Contains(p.Banned, t) {
			add = math.Inf(-1)
		}
		all[t] = Adjustment{t, float32(add), count[t] > 0 && p.RepeatPenalty != 0 && p.RepeatPenalty != 1}
	}
	return all
}

// plainDRY is DRY by its definition, in cubic time: for each place in the window, how many tokens before it stand as at the end.
func plainDRY(p DRY, window, tokens []int32) map[int32]float64 {
	loses := map[int32]float64{}
	if p.Multiplier == 0 || len(window) == 0 {
		return loses
	}
	limit := len(window) // tokens since the last breaker
	for n := 0; n < limit; n++ {
		for _, b := range p.Breakers {
			if end := len(tokens) - n; end >= len(b) && slices.Equal(tokens[end-len(b):end], b) {
				limit = n
			}
		}
	}
	longest := map[int32]int{}
	for at := 1; at < len(window); at++ {
		n := 0
		for n < limit && n < at && window[at-1-n] == window[len(window)-1-n] {
			n++
		}
		longest[window[at]] = max(longest[window[at]], n)
	}
	for t, n := range longest {
		single := slices.ContainsFunc(p.Breakers, func(b []int32) bool { return len(b) == 1 && b[0] == t })
		if n >= p.AllowedLength && n > 0 && !single {
			loses[t] = float64(p.Multiplier) * math.Pow(float64(p.Base), min(float64(n-p.AllowedLength), math.Floor(88.7228391/math.Log(float64(p.Base)))))
		}
	}
	return loses
}

func TestHistoriesAgreeWithCountingAnew(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	params := []Params{
		{RepeatPenalty: 1.3, PenaltyLastN: 5},
		{FrequencyPenalty: 0.5, PresencePenalty: -0.25},
		{RepeatPenalty: 0.8, FrequencyPenalty: 0.1, PenaltyLastN: 1, Bias: map[int32]float32{2: -1, 3: 4}, Banned: []int32{1}},
		{Bias: map[int32]float32{2: 0, 0: float32(math.Inf(-1))}},
		{DRY: DRY{Multiplier: 0.8, Base: 1.75, AllowedLength: 2}},
		{DRY: DRY{Multiplier: 1, Base: 1, AllowedLength: 1, LastN: 9}},
		{DRY: DRY{Multiplier: 0.1, Base: 2.5, AllowedLength: 1, LastN: 20, Breakers: [][]int32{{3}, {1, 2}, {2, 2, 0}}}},
		{RepeatPenalty: 1.1, PresencePenalty: 0.5, PenaltyLastN: 12, DRY: DRY{Multiplier: 2, Base: 1.1, AllowedLength: 3, Breakers: [][]int32{{0, 1}}}, Bias: map[int32]float32{3: -2}},
	}
	for _, p := range params {
		for range 60 {
			h, err := NewHistory(p, 4)
			if err != nil {
				t.Fatal(err)
			}
			var tokens []int32
			alphabet := 2 + r.Int32N(3)
			for range 40 {
				switch r.IntN(5) {
				case 0:
					n := r.IntN(len(tokens) + 1)
					if len(tokens)-n < 20 || r.IntN(8) == 0 {
						tokens = tokens[:n]
						h.Truncate(n)
					}
				case 1:
					part := h.Clone()
					h.Append(0, 1, 2) // of no interest: the other goes on
					h = part
				default:
					var more []int32
					for range r.IntN(12) {
						more = append(more, r.Int32N(alphabet))
					}
					tokens = append(tokens, more...)
					h.Append(more...)
				}
				if h.Len() != len(tokens) {
					t.Fatalf("%d tokens, want %d", h.Len(), len(tokens))
				}
				if len(tokens) == 0 {
					continue
				}
				d := h.Draw()
				if d.Position != len(tokens)-1 {
					t.Fatalf("position %d after %d tokens", d.Position, len(tokens))
				}
				want := plainAdjustments(p, tokens)
				if len(d.Adjust) != len(want) {
					t.Fatalf("%+v after %v: %v, want %v", p, tokens, d.Adjust, want)
				}
				for _, a := range d.Adjust {
					w := want[a.Token]
					if a.Repeat != w.Repeat || a.Add != w.Add && math.Abs(float64(a.Add-w.Add)) > 1e-6*math.Abs(float64(w.Add)) {
						t.Fatalf("%+v after %v: %+v, want %+v", p, tokens, a, w)
					}
				}
			}
		}
	}
}

// A draw is of its own row: tokens that come after it change nothing in it.
func TestADrawStaysWhatItIsWhenTheHistoryGoesOn(t *testing.T) {
	h, err := NewHistory(Params{PresencePenalty: 1, DRY: DRY{Multiplier: 1, Base: 2, AllowedLength: 1}}, 100)
	if err != nil {
		t.Fatal(err)
	}
	h.Append(5, 6, 5)
	d := h.Draw()
	before := slices.Clone(d.Adjust)
	h.Append(7, 8)
	h.Draw()
	h.Truncate(1)
	h.Append(9)
	h.Draw()
	if !slices.Equal(d.Adjust, before) || len(before) != 2 {
		t.Errorf("%v, was %v", d.Adjust, before)
	}
}

// The answers are those of llama.cpp's own tests (tests/test-sampling.cpp).
func TestPenaltiesGiveLlamaCppsKnownAnswers(t *testing.T) {
	four, five := logitsOf(0.25, 0.25, 0.25, 0.25), logitsOf(0.2, 0.2, 0.2, 0.2, 0.2)
	repeat := Params{RepeatPenalty: 50}
	both := Params{FrequencyPenalty: 5, PresencePenalty: 5}
	dry := func(multiplier float32, allowed int, breakers ...[]int32) Params {
		return Params{DRY: DRY{Multiplier: multiplier, Base: 1.1, AllowedLength: allowed, Breakers: breakers}}
	}
	for _, c := range []struct {
		name   string
		row    []float32
		p      Params
		tokens []int32
		want   []float64 // by token
	}{
		{"repeat, one token", five, repeat, []int32{0}, []float64{0, 0.25, 0.25, 0.25, 0.25}},
		{"repeat, three tokens", five, repeat, []int32{0, 1, 2}, []float64{0, 0, 0, 0.5, 0.5}},
		{"repeat does not count", five, repeat, []int32{0, 1, 2, 0, 0}, []float64{0, 0, 0, 0.5, 0.5}},
		{"frequency and presence, one token", five, both, []int32{0}, []float64{0.000011, 0.249997, 0.249997, 0.249997, 0.249997}},
		{"frequency and presence, three tokens", five, both, []int32{0, 1, 2}, []float64{0.000023, 0.000023, 0.000023, 0.499966, 0.499966}},
		{"frequency counts", five, both, []int32{0, 1, 2, 0, 0}, []float64{0, 0.000023, 0.000023, 0.499977, 0.499977}},
		{"DRY without a repetition", four, dry(1, 2), []int32{0, 1}, []float64{0.25, 0.25, 0.25, 0.25}},
		{"DRY", four, dry(1, 2), []int32{0, 1, 2, 0, 1}, []float64{0.296923, 0.296923, 0.109232, 0.296923}},
		{"DRY across a breaker", five, dry(1, 2, []int32{3}), []int32{0, 1, 3, 4, 0, 1}, []float64{0.2, 0.2, 0.2, 0.2, 0.2}},
		{"DRY times two", five, dry(2, 2), []int32{0, 1, 2, 0, 1}, []float64{0.241818, 0.241818, 0.032727, 0.241818, 0.241818}},
		{"DRY allows four", five, dry(1, 4), []int32{0, 1, 2, 3, 4, 0, 1}, []float64{0.2, 0.2, 0.2, 0.2, 0.2}},
	} {
		c.p.Temperature = 1
		h, err := NewHistory(c.p, len(c.row))
		if err != nil {
			t.Fatal(err)
		}
		h.Append(c.tokens...)
		got := distributionOf(t, c.row, h.Draw())
		for token, p := range c.want {
			if math.Abs(got[int32(token)]-p) > 1e-5 {
				t.Errorf("%s: token %d has %v, want %v", c.name, token, got[int32(token)], p)
			}
		}
	}
}

// Draft heads have smaller vocabularies.
func TestAdjustmentsOfTokensThatTheRowLacksArePassedOver(t *testing.T) {
	row := []float32{1, 2}
	if p := new(Sampler).Draw(row, Draw{Adjust: []Adjustment{{Token: 2, Add: 9}, {Token: 0, Add: 5}, {Token: -1, Add: 9}}, LogProb: true}); p.Token != 0 || p.Err != nil {
		t.Errorf("%+v, want token 0", p)
	}
	if !slices.Equal(row, []float32{1, 2}) {
		t.Errorf("the row is left as %v", row)
	}
}

// A penalty that divided negative logits would make them likelier.
func TestARepeatedTokenIsNeverMadeLikelier(t *testing.T) {
	for _, x := range []float32{-1e30, -3, -1e-20, 0, 1e-20, 3, 1e30} {
		if y := (Adjustment{Repeat: true}).of(x, 1.5); y > x {
			t.Errorf("%v becomes %v", x, y)
		}
	}
}

func TestAdjustedLogitsStayFiniteAndBrokenOnesBroken(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		x    float32
		a    Adjustment
		r    float64
		want float32
	}{
		{2, Adjustment{Repeat: true}, 4, 0.5},
		{-2, Adjustment{Repeat: true}, 4, -8},
		{2, Adjustment{Add: -3}, 4, -1},
		{2, Adjustment{Add: 0.5, Repeat: true}, 4, 1},
		{1, Adjustment{Add: -inf}, 1, -inf},
		{3e38, Adjustment{Add: 3e38}, 1, math.MaxFloat32},
		{3e38, Adjustment{Repeat: true}, 0.001, math.MaxFloat32},
		{-3e38, Adjustment{Repeat: true}, 1000, -math.MaxFloat32},
		{inf, Adjustment{Add: -inf}, 1, inf},
		{-inf, Adjustment{Add: 5}, 1, -inf},
	} {
		if y := c.a.of(c.x, c.r); y != c.want {
			t.Errorf("%v by %+v and %v: %v, want %v", c.x, c.a, c.r, y, c.want)
		}
	}
	if y := (Adjustment{Add: -inf}).of(nan, 1); y == y {
		t.Errorf("NaN becomes %v", y)
	}
	h, err := NewHistory(Params{Banned: []int32{1}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	h.Append(0)
	if p := new(Sampler).Draw([]float32{1, nan, 2}, h.Draw()); p.Err == nil || !strings.Contains(p.Err.Error(), "token 1 is NaN") {
		t.Errorf("a banned token that is NaN: %+v", p)
	}
}

// What a request asks to be told of is the model's word, unless it asks for what is drawn from.
func TestAdjustmentsChangeTheTokenAndNotTheRawLogProbabilities(t *testing.T) {
	row := []float32{3, 2.5, 1, 0}
	h, err := NewHistory(Params{Banned: []int32{0}, Bias: map[int32]float32{2: 10}, PresencePenalty: 1}, 4)
	if err != nil {
		t.Fatal(err)
	}
	h.Append(1)
	d := h.Draw()
	d.LogProb, d.Top = true, 4
	got := new(Sampler).Draw(row, d)
	q, _ := LogProbs(row)
	if got.Token != 2 || got.LogProb != q.Of(2) || !slices.Equal(got.Top, q.Top(4)) {
		t.Errorf("%+v, want token 2 with %v", got, q.Of(2))
	}
	d.Filtered, d.Temperature = true, 1
	got = new(Sampler).Draw(row, d)
	if len(got.Top) != 3 || got.Top[0].Token != 2 {
		t.Errorf("of what is drawn from: %+v, want tokens 2, 1, 3", got.Top)
	}
	if !slices.Equal(row, []float32{3, 2.5, 1, 0}) {
		t.Errorf("the logits are left as %v", row)
	}
}

func TestWhenEverythingIsBannedTheRowIsRefused(t *testing.T) {
	h, err := NewHistory(Params{Temperature: 1, Banned: []int32{0, 1, 2}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	h.Append(0)
	if p := new(Sampler).Draw([]float32{1, 2, 3}, h.Draw()); p.Err == nil || !strings.Contains(p.Err.Error(), "all 3 logits are -Inf") {
		t.Errorf("%+v, want an error", p)
	}
}

// A draw without its history would be drawn without penalties, in silence.
func TestPenaltiesWithoutAHistoryAreRefused(t *testing.T) {
	for _, p := range []Params{{RepeatPenalty: 1.1}, {FrequencyPenalty: 1}, {DRY: DRY{Multiplier: 1, Base: 2, AllowedLength: 1}}, {Bias: map[int32]float32{1: 1}}, {Banned: []int32{1}}} {
		if err := (Draw{Params: p}).Check(10); err == nil || !strings.Contains(err.Error(), "History.Draw") {
			t.Errorf("%+v: error %v", p, err)
		}
		h, err := NewHistory(p, 10)
		if err != nil {
			t.Fatal(err)
		}
		h.Append(1)
		if err := h.Draw().Check(10); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func BenchmarkHistory(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		p    Params
	}{
		{"penalties of the last 64", Params{RepeatPenalty: 1.1, PenaltyLastN: 64}},
		{"penalties of all 32768", Params{RepeatPenalty: 1.1}},
		{"DRY over all 32768", Params{DRY: DRY{Multiplier: 0.8, Base: 1.75, AllowedLength: 2}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, err := NewHistory(c.p, 150_000)
			if err != nil {
				b.Fatal(err)
			}
			token := func() int32 { return int32(5000 * r.Float64() * r.Float64() * r.Float64()) } // some often, most seldom
			for range 32768 {
				h.Append(token())
			}
			for b.Loop() {
				h.Append(token())
				h.Draw()
				h.Truncate(32768)
			}
		})
	}
}
