package cuda

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/sample"
)

// logitRow is a row of logits of some kind.
func logitRow(rng *rand.Rand, vocab, kind int) []float32 {
	x := make([]float32, vocab)
	for i := range x {
		x[i] = float32(3 * rng.NormFloat64())
	}
	inf := float32(math.Inf(1))
	switch kind {
	case 1: // few values, many ties
		for i := range x {
			x[i] = float32(math.Round(float64(x[i])))
		}
	case 2: // one value
		for i := range x {
			x[i] = -2.5
		}
	case 3: // a certain token
		x[rng.IntN(vocab)] = 60
	case 4: // most are banned
		for i := range x {
			if rng.IntN(50) > 0 {
				x[i] = -inf
			}
		}
		x[vocab-1] = 1
	case 5: // all but one are banned
		for i := range x {
			x[i] = -inf
		}
		x[rng.IntN(vocab)] = -7
	case 6: // extremes, and zeros of both signs
		for i, v := range []float32{3e38, -3e38, 1e-45, -1e-45, 0, float32(math.Copysign(0, -1))} {
			x[(i*vocab/6+rng.IntN(9))%vocab] = v
		}
	case 7: // zeros of both signs on top
		for i := range x {
			x[i] = min(x[i], 0)
			if x[i] == 0 && rng.IntN(2) == 0 {
				x[i] = float32(math.Copysign(0, -1))
			}
		}
	case 8: // nearly flat
		for i := range x {
			x[i] *= 1e-4
		}
	case 9: // broken
		x[rng.IntN(vocab)] = inf
		if rng.IntN(2) == 0 {
			x[rng.IntN(vocab)], x[rng.IntN(vocab)] = float32(math.NaN()), -float32(math.NaN())
		}
	case 10: // everything is banned
		for i := range x {
			x[i] = -inf
		}
	}
	return x
}

const logitKinds = 11

// randomDraw asks for anything.
func randomDraw(t testing.TB, rng *rand.Rand, vocab int) sample.Draw {
	var p sample.Params
	maybe := func(n int, f func()) {
		if rng.IntN(n) == 0 {
			f()
		}
	}
	p.Seed = rng.Uint64()
	p.Temperature = []float32{0, 0.1, 0.7, 1, 1.5, 30, 1e-30}[rng.IntN(7)]
	maybe(2, func() { p.TopK = []int{1, 2, 40, 64, 1000, vocab / 2, vocab - 1, vocab + 5}[rng.IntN(8)] })
	maybe(2, func() { p.TopP = []float32{1e-6, 0.3, 0.5, 0.9, 0.95, 0.999, 1}[rng.IntN(7)] })
	maybe(3, func() { p.MinP = []float32{1e-5, 0.02, 0.3, 1}[rng.IntN(4)] })
	maybe(4, func() { p.TopNSigma = []float32{1e-3, 0.5, 1, 3, 100}[rng.IntN(5)] })
	maybe(4, func() { p.Typical = []float32{1e-6, 0.2, 0.9, 0.999}[rng.IntN(4)] })
	maybe(4, func() {
		p.XTC = sample.XTC{Probability: []float32{0.5, 1}[rng.IntN(2)], Threshold: []float32{1e-30, 1e-6, 0.01, 0.1, 0.5}[rng.IntN(5)]}
	})
	maybe(3, func() {
		for _, i := range rng.Perm(sample.Filters) {
			p.Order = append(p.Order, sample.Filter(i+1))
		}
	})
	maybe(4, func() {
		p.RepeatPenalty, p.FrequencyPenalty, p.PresencePenalty, p.PenaltyLastN = 1+rng.Float32(), rng.Float32(), -rng.Float32(), rng.IntN(40)
	})
	maybe(6, func() { p.DRY = sample.DRY{Multiplier: 1, Base: 1.75, AllowedLength: 1 + rng.IntN(3)} })
	maybe(6, func() {
		p.Bias = map[int32]float32{rng.Int32N(int32(vocab)): -5, rng.Int32N(int32(vocab)): 1e6, rng.Int32N(int32(vocab)): float32(math.Inf(-1))}
	})
	maybe(30, func() {
		for i := range vocab {
			p.Banned = append(p.Banned, int32(i))
		}
	})
	h, err := sample.NewHistory(p, vocab)
	if err != nil {
		t.Fatal(err)
	}
	for range 1 + rng.IntN(300) {
		h.Append(rng.Int32N(int32(min(vocab, 30))))
	}
	d := h.Draw()
	d.Position = rng.IntN(1 << 20)
	d.LogProb, d.Filtered = rng.IntN(4) > 0, rng.IntN(2) == 0 // filtered ones tell what exactly was kept
	maybe(3, func() { d.Top = []int{1, 5, 20, 300, sample.MaxTop}[rng.IntN(5)] })
	maybe(6, func() { d.Given, d.Token = true, rng.Int32N(int32(vocab)) })
	maybe(10, func() {
		d.Adjust = append(slices.Clone(d.Adjust), sample.Adjustment{Token: int32(vocab), Add: 9}, sample.Adjustment{Token: -1})
	})
	return d
}

// samePick compares a pick with what package sample gives.
func samePick(t *testing.T, what string, got, want sample.Pick) {
	t.Helper()
	if fmt.Sprint(got.Err) != fmt.Sprint(want.Err) {
		t.Errorf("%s: error %v, want %v", what, got.Err, want.Err)
	}
	if got.Token != want.Token || math.Float32bits(got.LogProb) != math.Float32bits(want.LogProb) {
		t.Errorf("%s: token %d, log-probability %v, want %d, %v", what, got.Token, got.LogProb, want.Token, want.LogProb)
	}
	if !slices.Equal(got.Top, want.Top) {
		at := 0
		for at < min(len(got.Top), len(want.Top)) && got.Top[at] == want.Top[at] {
			at++
		}
		t.Errorf("%s: the likeliest %d tokens differ from the %d wanted at place %d", what, len(got.Top), len(want.Top), at)
	}
}

// Every row asks for something else; three steps of a shape: eager, captured, replayed.
func TestDrawsOnTheGPUAreThoseOfPackageSample(t *testing.T) {
	d := gpu(t)
	vocabs, counts := []int{300, 4096, 49152, 128256, 262144}, []int{1, 7, 64}
	if testing.Short() { // under compute-sanitizer
		vocabs, counts = []int{300, 9000}, []int{1, 7}
	}
	for _, vocab := range vocabs {
		for _, rows := range counts {
			steps := 9
			if rows == 1 {
				steps = 66
			}
			drawsAgree(t, d, vocab, rows, steps)
		}
	}
	if len(d.graphs.list) == 0 {
		t.Error("no step became a graph")
	}
}

// drawsAgree compares steps of rows with what package sample gives.
func drawsAgree(t *testing.T, d *Device, vocab, rows, steps int) {
	rng := rand.New(rand.NewPCG(uint64(vocab), uint64(rows)))
	for range steps {
		logits := make([][]float32, rows)
		draws := make([]sample.Draw, rows)
		want := make([]sample.Pick, rows)
		seeds := make([]uint64, rows)
		for i := range rows {
			draws[i], seeds[i] = randomDraw(t, rng, vocab), rng.Uint64()
		}
		parallel(rows, func(i int) {
			own := rand.New(rand.NewPCG(seeds[i], 1))
			logits[i] = logitRow(own, vocab, own.IntN(logitKinds+4)) // four more for the usual kind
			want[i] = new(sample.Sampler).Draw(logits[i], draws[i])
		})
		picks, err := d.Sample(func(ops compute.Ops) compute.Tensor { return ops.(*step).tensor(slices.Concat(logits...), vocab) }, draws)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			asked := draws[i]
			asked.Banned, asked.Adjust = asked.Banned[:min(len(asked.Banned), 4)], asked.Adjust[:min(len(asked.Adjust), 4)]
			samePick(t, fmt.Sprintf("vocabulary of %d, row %d of %d, %+v", vocab, i, rows, asked), picks[i], want[i])
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestDrawsThatDoNotFitTheLogitsAreRefused(t *testing.T) {
	d := openFake(t, newFake())
	m := newToy(t, d, gguf.Q8_0, 64)
	draw := func(draws ...sample.Draw) error {
		_, err := d.Sample(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(1, 0)) }, draws)
		return err
	}
	mentions(t, draw(), "0 draws from 1 rows")
	mentions(t, draw(sample.Draw{Given: true, Token: 100}), "draw 0", "given token 100", "99")
	if err := draw(sample.Draw{}); err != nil {
		t.Errorf("after refused draws: %v", err)
	}
}

// Parameters lie in device memory, so steps that differ in them alone are one graph.
func TestParametersOfADrawChangeNoLaunch(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	m := newToy(t, d, gguf.Q8_0, 64)
	for i := range 10 {
		draws := []sample.Draw{{Params: sample.Params{Temperature: float32(i + 1), TopK: i + 1, Seed: uint64(i)}, Position: i}}
		if _, err := d.Sample(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(1, i)) }, draws); err != nil {
			t.Fatal(err)
		}
	}
	if f.replays != 9 || len(d.graphs.list) != 1 {
		t.Errorf("%d replays of %d graphs, want 9 of 1", f.replays, len(d.graphs.list))
	}
}

func TestTheTableOfRootsIsRoundedCorrectly(t *testing.T) {
	source, err := os.ReadFile("kernels/sample.cuh")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)ROOTS\[64\] = \{[^\n]*\n(.*?)\};`).FindSubmatch(source)[1]
	roots := regexp.MustCompile(`0x[0-9a-fp.+]+`).FindAllString(string(table), -1)
	if len(roots) != 64 {
		t.Fatalf("%d roots, want 64", len(roots))
	}
	root, power := big.NewFloat(2).SetPrec(200), big.NewFloat(1).SetPrec(200)
	for range 6 {
		root.Sqrt(root)
	}
	for j, text := range roots {
		got, err := strconv.ParseFloat(text, 64)
		if want, _ := power.Float64(); err != nil || got != want {
			t.Errorf("2^(%d/64) is %x (%v), want %x", j, got, err, want)
		}
		power.Mul(power, root)
	}
}

// What sampling adds to a step of 1 and of 64 rows: the GPU's time of a graph of the draws alone.
func BenchmarkDraws(b *testing.B) {
	d := gpu(b)
	for _, vocab := range []int{49152, 128256, 262144} {
		for _, rows := range []int{1, 64} {
			rng := rand.New(rand.NewPCG(51, 52))
			var logits []float32
			for range rows {
				logits = append(logits, logitRow(rng, vocab, 0)...)
			}
			var penalties []sample.Adjustment
			for i := range 1000 {
				penalties = append(penalties, sample.Adjustment{Token: int32(i * vocab / 1000), Add: -0.5, Repeat: true})
			}
			for _, c := range []struct {
				name string
				draw sample.Draw
			}{
				{"greedy", sample.Draw{}},
				{"logprob", sample.Draw{LogProb: true}},
				{"T=1", sample.Draw{Params: sample.Params{Temperature: 1}}},
				{"k=40", sample.Draw{Params: sample.Params{Temperature: 0.8, TopK: 40}}},
				{"p=0.95", sample.Draw{Params: sample.Params{Temperature: 1, TopP: 0.95}}},
				{"minp=0.05", sample.Draw{Params: sample.Params{Temperature: 1, MinP: 0.05}}},
				{"k=40,p=0.95,minp=0.05,logprob", sample.Draw{Params: sample.Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}, LogProb: true}},
				{"top=20", sample.Draw{LogProb: true, Top: 20}},
				{"penalties", sample.Draw{Params: sample.Params{RepeatPenalty: 1.1}, Adjust: penalties}},
				{"penalties,k=40,p=0.95", sample.Draw{Params: sample.Params{RepeatPenalty: 1.1, Temperature: 0.8, TopK: 40, TopP: 0.95}, Adjust: penalties}},
				{"penalties,k=40,p=0.95,logprob", sample.Draw{Params: sample.Params{RepeatPenalty: 1.1, Temperature: 0.8, TopK: 40, TopP: 0.95}, Adjust: penalties, LogProb: true}},
				{"k=40,p=0.95,filtered logprob", sample.Draw{Params: sample.Params{Temperature: 0.8, TopK: 40, TopP: 0.95}, LogProb: true, Filtered: true}},
				{"nsigma=1", sample.Draw{Params: sample.Params{Temperature: 1, TopNSigma: 1}}},
				{"typical=0.9", sample.Draw{Params: sample.Params{Temperature: 1, Typical: 0.9}}},
				{"xtc", sample.Draw{Params: sample.Params{Temperature: 1, XTC: sample.XTC{Probability: 1, Threshold: 0.001}}}},
				{"llama.cpp's order", sample.Draw{Params: sample.Params{Temperature: 0.8, TopNSigma: 3, TopK: 40, Typical: 0.95, TopP: 0.95, MinP: 0.05, XTC: sample.XTC{Probability: 1, Threshold: 0.1},
					Order: []sample.Filter{sample.ByTopNSigma, sample.ByTopK, sample.ByTypical, sample.ByTopP, sample.ByMinP, sample.ByXTC, sample.ByTemperature}}}},
			} {
				b.Run(fmt.Sprintf("vocab=%d/rows=%d/%s", vocab, rows, c.name), func(b *testing.B) {
					const replays = 200
					best := math.Inf(1)
					for b.Loop() {
						if err := d.owner.do(func() error {
							s := &d.step
							s.reset(0)
							draws := make([]sample.Draw, rows)
							for i := range draws {
								draws[i] = c.draw
								draws[i].Seed = uint64(i)
							}
							s.sample(s.tensor(logits, vocab), draws)
							if err := s.inputs.send(d); err != nil {
								return err
							}
							g, err := d.capture(s.launches)
							if err != nil {
								return err
							}
							seconds, err := d.elapsed(func() error {
								for range replays {
									if err := check(d.driver, d.driver.graphLaunch(g.exec, d.stream), "cuGraphLaunch"); err != nil {
										return err
									}
								}
								return nil
							})
							best = min(best, seconds/replays)
							return err
						}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(best*1e6, "µs/step")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
