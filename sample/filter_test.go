package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// plainKept is what the filters keep, by their definitions: probabilities in float64, everything sorted, no shortcut.
func plainKept(p Params, row []float32) []candidate {
	var kept []candidate
	for i, x := range row {
		if !math.IsInf(float64(x), -1) {
			kept = append(kept, candidate{x, int32(i)})
		}
	}
	slices.SortFunc(kept, compare)
	mean, sigma := 0.0, 0.0
	for _, c := range kept {
		mean += float64(c.logit) / float64(len(kept))
	}
	for _, c := range kept {
		sigma += (float64(c.logit) - mean) * (float64(c.logit) - mean) / float64(len(kept))
	}
	sigma = math.Sqrt(sigma)
	order := p.Order
	if order == nil {
		order = defaultOrder
	}
	temperature := 1.0
	for _, f := range order {
		probability := make([]float64, len(kept))
		total := 0.0
		for i, c := range kept {
			probability[i] = math.Exp((float64(c.logit) - float64(kept[0].logit)) / temperature)
			total += probability[i]
		}
		for i := range probability {
			probability[i] /= total
		}
		keep := make([]bool, len(kept))
		reach := func(order []int, p float32) int { // how many reach the share
			sum := 0.0
			for n, i := range order {
				if sum += probability[i]; sum >= float64(p) {
					return n + 1
				}
			}
			return len(order)
		}
		inOrder := make([]int, len(kept))
		for i := range inOrder {
			inOrder[i] = i
		}
		for i := range kept {
			switch {
			case f == ByTemperature || !p.on(f):
				keep[i] = true
			case f == ByTopNSigma:
				keep[i] = float64(kept[i].logit) >= float64(kept[0].logit)-float64(p.TopNSigma)*sigma
			case f == ByTopK:
				keep[i] = i < p.TopK
			case f == ByMinP:
				keep[i] = probability[i] >= float64(p.MinP)*probability[0]*(1-1e-12)
			case f == ByTopP:
				keep[i] = i < reach(inOrder, p.TopP)
			case f == ByXTC:
				keep[i] = i+1 == len(kept) || probability[i+1] < float64(p.XTC.Threshold)
			case f == ByTypical && i == 0:
				entropy := 0.0
				for _, q := range probability {
					if q > 0 {
						entropy -= q * math.Log(q)
					}
				}
				distance := make([]float64, len(kept))
				for i, c := range kept {
					information := math.Log(total) - (float64(c.logit)-float64(kept[0].logit))/temperature
					distance[i] = math.Abs(information - entropy)
				}
				slices.SortStableFunc(inOrder, func(a, b int) int {
					if distance[a] < distance[b] {
						return -1
					}
					return 1
				})
				furthest := distance[inOrder[reach(inOrder, p.Typical)-1]]
				for i := range keep {
					keep[i] = distance[i] <= furthest+1e-9
				}
			}
		}
		var left []candidate
		for i, c := range kept {
			if keep[i] {
				left = append(left, c)
			}
		}
		kept = left
		if f == ByTemperature && p.Temperature > 0 {
			temperature = float64(p.Temperature)
		}
	}
	return kept
}

func TestFiltersAgreeWithTheirDefinitionsInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(71, 72))
	one := func(p Params) Params { p.Temperature = max(p.Temperature, 1); return p }
	base := []Params{
		one(Params{TopNSigma: 1}), one(Params{TopNSigma: 0.1}), one(Params{Typical: 0.2}), one(Params{Typical: 0.95}),
		one(Params{XTC: XTC{1, 0.1}}), one(Params{XTC: XTC{1, 0.001}}), one(Params{XTC: XTC{1, 0.5}}),
		{Temperature: 0.6, TopNSigma: 1.5, TopK: 50, Typical: 0.9, TopP: 0.9, MinP: 0.01, XTC: XTC{1, 0.05}},
		{Temperature: 2, TopNSigma: 2, TopK: 300, Typical: 0.7, TopP: 0.8, MinP: 0.001, XTC: XTC{1, 0.01}},
		{Temperature: 1.3, Typical: 0.9, TopP: 0.95}, {Temperature: 0.8, XTC: XTC{1, 0.02}, MinP: 0.05}, {Temperature: 3, XTC: XTC{1, 0.02}, TopP: 0.5},
	}
	var s Sampler
	for i := range 500 {
		p := base[i%len(base)]
		if i >= 2*len(base) {
			p.Order = []Filter{}
			for _, f := range r.Perm(Filters) {
				p.Order = append(p.Order, Filter(f+1))
			}
		}
		row := randomRow(r, 1+r.IntN(3000), []float64{0, 0.25}[i%2])
		for range i % 4 {
			row[r.IntN(len(row))] = -inf
		}
		if _, err := argmax(row, Largest); err != nil {
			continue
		}
		d := Draw{Params: p, Position: i}
		if err := d.Check(len(row)); err != nil {
			t.Fatal(err)
		}
		want := plainKept(p, row)
		if got := keptBy(p, row); got != nil && !slices.Equal(got, want) {
			t.Fatalf("row %d of %d logits, %+v: %d tokens kept, want %d", i, len(row), p, len(got), len(want))
		}
		best, token := math.Inf(-1), int32(-1)
		for _, c := range want {
			if y := float64(c.logit)/float64(p.Temperature) + Noise(p.Seed, i, c.token); y > best {
				best, token = y, c.token
			}
		}
		if got := s.Draw(row, d); got.Token != token {
			t.Fatalf("row %d of %d logits, %+v: token %d, want %d", i, len(row), p, got.Token, token)
		}
	}
}

// What a filter keeps is a run of the order of candidates: devices build on it.
func TestWhatFiltersKeepIsARun(t *testing.T) {
	r := rand.New(rand.NewPCG(73, 74))
	for i := range 400 {
		row := randomRow(r, 1+r.IntN(500), []float64{0, 0.5, 3}[i%3])
		p := Params{Temperature: 0.3 + 3*r.Float32(), Typical: r.Float32(), XTC: XTC{1, r.Float32() / 4}, TopP: r.Float32(), MinP: r.Float32() / 20}
		for _, f := range r.Perm(Filters) {
			p.Order = append(p.Order, Filter(f+1))
		}
		kept := keptBy(p, row)
		if len(kept) == 0 {
			t.Fatalf("%+v keeps nothing", p)
		}
		all := runOf(kept)
		n := 0
		for token, x := range row {
			if all.has(candidate{x, int32(token)}) {
				n++
			}
		}
		if n != len(kept) {
			t.Fatalf("%+v keeps %d of the %d tokens of a run", p, len(kept), n)
		}
	}
}

// distributionOf is what is drawn from, by token.
func distributionOf(t *testing.T, row []float32, d Draw) map[int32]float64 {
	t.Helper()
	d.Filtered, d.Top = true, len(row)
	if err := d.Check(len(row)); err != nil {
		t.Fatal(err)
	}
	p := new(Sampler).Draw(row, d)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	q := map[int32]float64{}
	for _, top := range p.Top {
		q[top.Token] = math.Exp(float64(top.LogProb))
	}
	return q
}

func logitsOf(probabilities ...float64) []float32 {
	row := make([]float32, len(probabilities))
	for i, p := range probabilities {
		row[i] = float32(math.Log(p))
	}
	return row
}

// The answers are those of llama.cpp's own tests (tests/test-sampling.cpp); its top-p of 0 and min-p above 1 are refused or off here.
func TestFiltersGiveLlamaCppsKnownAnswers(t *testing.T) {
	up, down := logitsOf(0.1, 0.2, 0.3, 0.4), logitsOf(0.4, 0.3, 0.2, 0.1)
	all := map[int32]float64{0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}
	for _, c := range []struct {
		name string
		row  []float32
		p    Params
		want map[int32]float64
	}{
		{"temperature 1", up, Params{Temperature: 1}, all},
		{"temperature 0", up, Params{}, map[int32]float64{3: 1}},
		{"top-k 1", up, Params{Temperature: 1, TopK: 1}, map[int32]float64{3: 1}},
		{"top-k 3", up, Params{Temperature: 1, TopK: 3}, map[int32]float64{3: 0.44444, 2: 0.33333, 1: 0.22222}},
		{"top-k 4", up, Params{Temperature: 1, TopK: 4}, all},
		{"top-p 0.7", up, Params{Temperature: 1, TopP: 0.7}, map[int32]float64{3: 0.571429, 2: 0.428571}},
		{"top-p 0.8", up, Params{Temperature: 1, TopP: 0.8}, map[int32]float64{3: 0.44444, 2: 0.33333, 1: 0.22222}},
		{"top-p 1", up, Params{Temperature: 1, TopP: 1}, all},
		{"min-p 0.24", up, Params{Temperature: 1, MinP: 0.24}, all},
		{"min-p 0.26", up, Params{Temperature: 1, MinP: 0.26}, map[int32]float64{1: 0.2 / 0.9, 2: 0.3 / 0.9, 3: 0.4 / 0.9}},
		{"min-p 0.49", up, Params{Temperature: 1, MinP: 0.49}, map[int32]float64{1: 0.2 / 0.9, 2: 0.3 / 0.9, 3: 0.4 / 0.9}},
		{"min-p 0.51", up, Params{Temperature: 1, MinP: 0.51}, map[int32]float64{2: 0.3 / 0.7, 3: 0.4 / 0.7}},
		{"min-p 0.74", up, Params{Temperature: 1, MinP: 0.74}, map[int32]float64{2: 0.3 / 0.7, 3: 0.4 / 0.7}},
		{"min-p 0.76", up, Params{Temperature: 1, MinP: 0.76}, map[int32]float64{3: 1}},
		{"min-p 1", up, Params{Temperature: 1, MinP: 1}, map[int32]float64{3: 1}},
		// llama.cpp's test looks at the probabilities from before: 0.1; 0.2, 0.1; 0.3, 0.2, 0.1.
		{"XTC from 0.09", down, Params{Temperature: 1, XTC: XTC{1, 0.09}}, map[int32]float64{3: 1}},
		{"XTC from 0.19", down, Params{Temperature: 1, XTC: XTC{1, 0.19}}, map[int32]float64{2: 0.2 / 0.3, 3: 0.1 / 0.3}},
		{"XTC from 0.29", down, Params{Temperature: 1, XTC: XTC{1, 0.29}}, map[int32]float64{1: 0.3 / 0.6, 2: 0.2 / 0.6, 3: 0.1 / 0.6}},
		{"XTC from 0.39", down, Params{Temperature: 1, XTC: XTC{1, 0.39}}, map[int32]float64{0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}},
		{"typical with a sure token", logitsOf(0.97, 0.01, 0.01, 0.01), Params{Temperature: 1, Typical: 0.5}, map[int32]float64{0: 1}},
		{"typical drops the likeliest", logitsOf(0.4, 0.2, 0.2, 0.2), Params{Temperature: 1, Typical: 0.5}, map[int32]float64{1: 1. / 3, 2: 1. / 3, 3: 1. / 3}},
		{"top-n-sigma 1", up, Params{Temperature: 1, TopNSigma: 1}, map[int32]float64{2: 0.428571, 3: 0.571429}},
		{"top-n-sigma 0 is off", up, Params{Temperature: 1}, all},
		{"top-n-sigma 3", up, Params{Temperature: 1, TopNSigma: 3}, all},
	} {
		got := distributionOf(t, c.row, Draw{Params: c.p})
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for token, p := range c.want {
			if math.Abs(got[token]-p) > 1e-5 {
				t.Errorf("%s: token %d has %v, want %v", c.name, token, got[token], p)
			}
		}
	}
}

// llama.cpp's test of queues: the logits are log(token), so how many are kept can be counted.
func TestQueuesKeepAsManyAsLlamaCpp(t *testing.T) {
	const vocab = 10_000
	row := make([]float32, vocab)
	for i := range row {
		row[i] = float32(math.Log(float64(i)))
	}
	for _, c := range []struct {
		queue string
		k     int
		p, m  float64
	}{
		{"k", 1, 0, 0}, {"k", 100, 0, 0}, {"p", 0, 0.0003, 0}, {"p", 0, 0.8, 0}, {"m", 0, 0, 9997.9 / 9999}, {"m", 0, 0, 0.1}, {"m", 0, 0, 1},
		{"kp", 100, 0.8, 0.1}, {"km", 100, 0.8, 0.1}, {"pk", 100, 0.8, 0.1}, {"pm", 100, 0.8, 0.1}, {"mk", 100, 0.8, 0.1}, {"mp", 100, 0.8, 9997.9 / 9999}, {"mp", 100, 0.8, 0.1},
		{"kpm", 100, 0.8, 0.1}, {"kmp", 100, 0.8, 0.1}, {"pkm", 100, 0.8, 0.1}, {"pmk", 100, 0.8, 0.1}, {"mkp", 100, 0.8, 0.1}, {"mpk", 100, 0.8, 0.1},
	} {
		p := Params{Temperature: 1, Order: []Filter{ByTemperature}}
		least := 1
		for _, f := range c.queue {
			switch f {
			case 'k':
				p.TopK, p.Order = c.k, append(p.Order, ByTopK)
				least = max(least, vocab-c.k)
			case 'p':
				p.TopP, p.Order = float32(c.p), append(p.Order, ByTopP)
				total := vocab*(vocab-1)/2 - least*(least-1)/2
				want, sum := int(math.Ceil(c.p*float64(total))), 0
				for least = vocab; sum < want; {
					least--
					sum += least
				}
			case 'm':
				p.MinP, p.Order = float32(c.m), append(p.Order, ByMinP)
				least = max(least, int(math.Ceil(c.m*(vocab-1)-1e-3)))
			}
		}
		if kept := keptBy(p, row); len(kept) != vocab-least || kept[len(kept)-1].token != int32(least) {
			t.Errorf("%s with %d, %v, %v keeps %d down to %d, want %d down to %d", c.queue, c.k, c.p, c.m, len(kept), kept[len(kept)-1].token, vocab-least, least)
		}
	}
}

// Chi-square of draws over positions against the softmax of what a plain twin keeps.
func TestDrawsFollowWhatFiltersLeave(t *testing.T) {
	row := []float32{0, 1, 2, -1, 0.5, 1.5, -2, 0, 0.7, -0.3}
	for _, p := range []Params{
		{Temperature: 1, Typical: 0.7}, {Temperature: 0.8, TopNSigma: 1}, {Temperature: 1, XTC: XTC{1, 0.15}},
		{Temperature: 1.5, Typical: 0.9, TopP: 0.9, XTC: XTC{1, 0.15}, Order: []Filter{ByXTC, ByTypical, ByTopP, ByTemperature}},
		{Temperature: 1, XTC: XTC{0.4, 0.15}},
	} {
		const draws = 60_000
		want := map[int32]float64{}
		mix := func(p Params, part float64) {
			total := 0.0
			kept := plainKept(p, row)
			for _, c := range kept {
				total += math.Exp(float64(c.logit) / float64(p.Temperature))
			}
			for _, c := range kept {
				want[c.token] += part * draws * math.Exp(float64(c.logit)/float64(p.Temperature)) / total
			}
		}
		drops := 1.0
		if chance := p.XTC.Probability; chance > 0 {
			drops = float64(chance)
		}
		mix(p, drops)
		without := p
		without.XTC = XTC{}
		mix(without, 1-drops)
		count := map[int32]float64{}
		for i := range draws {
			count[pick(t, new(Sampler), p, row, i)]++
		}
		chi := 0.0
		for token, n := range count {
			if want[token] == 0 {
				t.Errorf("%+v: token %d drawn, which was dropped", p, token)
			}
			chi += (n - want[token]) * (n - want[token]) / want[token]
		}
		if chi > 27.9 { // 99.9 % of the distribution with 9 degrees of freedom is below; fewer tokens, lower still
			t.Errorf("%+v: chi-square %.1f, want at most 27.9", p, chi)
		}
	}
}

func TestXTCComesTrueAsOftenAsItSaysApartFromTheNoise(t *testing.T) {
	const n = 100_000
	d := Draw{Params: Params{Temperature: 1, XTC: XTC{0.25, 0.1}, Seed: 5}}
	comes, same := 0, 0
	for i := range n {
		d.Position = i
		if d.chance() {
			comes++
		}
		if words := noiseWords(d.Seed, i, 0); (float64(words[0])*0x1p-32 < 0.25) == d.chance() {
			same++
		}
	}
	if math.Abs(float64(comes)/n-0.25) > 4*math.Sqrt(0.25*0.75/n) {
		t.Errorf("%d of %d, want a quarter", comes, n)
	}
	if want := 0.25*0.25 + 0.75*0.75; math.Abs(float64(same)/n-want) > 4*math.Sqrt(want*(1-want)/n) {
		t.Errorf("agrees with token 0's noise at %d of %d positions, want %v", same, n, want)
	}
	for _, c := range []struct {
		probability float32
		want        bool
	}{{0, false}, {1, true}} {
		d.XTC.Probability = c.probability
		for d.Position = range 2000 {
			if d.chance() != c.want {
				t.Fatalf("a probability of %v at position %d: %v", c.probability, d.Position, d.chance())
			}
		}
	}
}

func TestGreedyDrawsPassWhatMayDropTheLargest(t *testing.T) {
	row := logitsOf(0.4, 0.25, 0.2, 0.15)
	for _, c := range []struct {
		p    Params
		want int32
	}{
		{Params{XTC: XTC{1, 0.1}}, 0}, // a temperature of 0 leaves one candidate
		{Params{XTC: XTC{1, 0.1}, Order: []Filter{ByXTC, ByTemperature}}, 3},
		{Params{XTC: XTC{1, 0.1}, Order: []Filter{ByXTC}}, 3},
		{Params{TopK: 2, XTC: XTC{1, 0.1}, Order: []Filter{ByTopK, ByXTC}}, 1},
		{Params{Typical: 0.4, Order: []Filter{ByTypical, ByTemperature}}, 1},
		{Params{TopK: 1, TopP: 0.1, MinP: 1, TopNSigma: 0.1, Order: []Filter{ByMinP, ByTopNSigma, ByTopP, ByTopK, ByTemperature}}, 0},
	} {
		if got := pick(t, new(Sampler), c.p, row, 0); got != c.want {
			t.Errorf("%+v: token %d, want %d", c.p, got, c.want)
		}
	}
}

func TestFilteredLogProbabilitiesAreOfWhatIsDrawnFrom(t *testing.T) {
	r := rand.New(rand.NewPCG(75, 76))
	for i := range 200 {
		row := randomRow(r, 1+r.IntN(9000), 0)
		p := Params{Temperature: 0.5 + r.Float32(), TopK: r.IntN(60), TopP: r.Float32(), Typical: r.Float32(), Seed: uint64(i)}
		d := Draw{Params: p, Adjust: []Adjustment{{Token: int32(r.IntN(len(row))), Add: 30 * r.Float32()}}, Position: i, LogProb: true, Top: 5, Filtered: true}
		adjusted := slices.Clone(row)
		for _, a := range d.Adjust {
			adjusted[a.Token] += a.Add
		}
		kept := plainKept(p, adjusted)
		total := 0.0
		for _, c := range kept {
			total += math.Exp((float64(c.logit) - float64(kept[0].logit)) / float64(p.Temperature))
		}
		of := func(c candidate) float64 {
			return (float64(c.logit)-float64(kept[0].logit))/float64(p.Temperature) - math.Log(total)
		}
		got := new(Sampler).Draw(row, d)
		if len(got.Top) != min(5, len(kept)) {
			t.Fatalf("%+v: %d of the likeliest, want %d", d, len(got.Top), min(5, len(kept)))
		}
		for j, top := range got.Top {
			if top.Token != kept[j].token || math.Abs(float64(top.LogProb)-of(kept[j])) > 1e-6+1e-6*math.Abs(of(kept[j])) {
				t.Fatalf("%+v: %v in place %d, want token %d, %v", d, top, j, kept[j].token, of(kept[j]))
			}
		}
		at := slices.IndexFunc(kept, func(c candidate) bool { return c.token == got.Token })
		if at < 0 || math.Abs(float64(got.LogProb)-of(kept[at])) > 1e-6+1e-6*math.Abs(of(kept[at])) {
			t.Fatalf("%+v: token %d with %v", d, got.Token, got.LogProb)
		}
		given := d
		given.Given, given.Token = true, got.Token
		if again := new(Sampler).Draw(row, given); again.LogProb != got.LogProb || !slices.Equal(again.Top, got.Top) {
			t.Fatalf("%+v: the token given has %v, drawn %v", d, again.LogProb, got.LogProb)
		}
		if len(kept) < len(row) {
			for token := range row {
				if !slices.ContainsFunc(kept, func(c candidate) bool { return c.token == int32(token) }) {
					given.Token = int32(token)
					break
				}
			}
			if p := new(Sampler).Draw(row, given); p.LogProb != -inf {
				t.Fatalf("%+v: a token that was dropped has %v", d, p.LogProb)
			}
		}
	}
}

func TestTheZeroParamsAndPlainTemperaturesPassNoFilter(t *testing.T) {
	for _, p := range []Params{{}, {Temperature: 1}, {TopK: 5, TopP: 0.5, XTC: XTC{1, 0.1}}, {Temperature: 1, TopP: 1, Typical: 1, TopK: 100, XTC: XTC{1, 0.6}}} {
		d := Draw{Params: p}
		if plan := d.Plan(100); len(plan.Filters()) != 0 {
			t.Errorf("%+v passes %v", p, plan.Filters())
		}
	}
}

// Rows of anything: a token that may be drawn, or a refusal; logits come back as they were.
func FuzzDraw(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 192, 127}, uint64(1), float32(1), 3, float32(0.9), float32(0.1), float32(0.5), float32(1), float32(0.1), uint8(3))
	f.Add([]byte{0, 0, 128, 255, 0, 0, 128, 127, 0, 0, 0, 0}, uint64(2), float32(0), 0, float32(0), float32(0), float32(0), float32(0), float32(1e-30), uint8(255))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, temperature float32, k int, topP, minP, typical, sigma, threshold float32, flags uint8) {
		row := make([]float32, len(data)/4)
		for i := range row {
			row[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		if len(row) == 0 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		p := Params{Temperature: temperature, TopK: k, TopP: topP, MinP: minP, Typical: typical, TopNSigma: sigma, XTC: XTC{1, threshold}, Seed: seed}
		if flags&1 != 0 {
			for _, f := range r.Perm(Filters) {
				p.Order = append(p.Order, Filter(f+1))
			}
		}
		if flags&2 != 0 {
			p.RepeatPenalty, p.PresencePenalty = 1.5, 2
		}
		if flags&4 != 0 {
			p.Banned = []int32{0}
		}
		h, err := NewHistory(p, len(row))
		if err != nil {
			return
		}
		for range 1 + int(flags>>5) {
			h.Append(r.Int32N(int32(len(row))))
		}
		d := h.Draw()
		d.LogProb, d.Top, d.Filtered = true, 3, flags&8 != 0
		before := fmt.Sprint(row)
		got := new(Sampler).Draw(row, d)
		if after := fmt.Sprint(row); after != before {
			t.Fatalf("logits changed from %s to %s", before, after)
		}
		if got.Err != nil {
			return
		}
		if got.LogProb != got.LogProb || got.LogProb > 1e-6 {
			t.Errorf("%+v: log-probability %v", got, got.LogProb)
		}
		if math.IsInf(float64(row[got.Token]), -1) || len(p.Banned) > 0 && got.Token == 0 {
			t.Errorf("%+v: a banned token", got)
		}
		if d.Filtered && math.IsInf(float64(got.LogProb), -1) {
			t.Errorf("%+v: the token cannot be drawn", got)
		}
	})
}
