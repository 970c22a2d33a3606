package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
	"memra/sample"
)

// Tokens that are drawn from rough logits are those of the logits as they are, of every form of weight, with and without a cap, and where outputs tie.
func TestTokensDoNotTellThatLogitsWereRough(t *testing.T) {
	const width, vocab, rounds = 512, 700, 4
	for _, k := range sets {
		d, other := openTest(t, 2, k), openTest(t, 1, k)
		eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
			rng := rand.New(rand.NewPCG(81, 82))
			data := randomRows(t, rng, f, vocab, width)
			bytes := len(data) / vocab
			for range vocab / 2 { // ties
				copy(data[rng.IntN(vocab)*bytes:][:bytes], data[rng.IntN(vocab)*bytes:][:bytes])
			}
			w, err := d.Pack(f.Type, vocab, width, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			for !d.step.measure(w.Mem.(*packed)) {
			}
			for round := range rounds {
				rows := 2 + rng.IntN(18)
				var b compute.Batch
				x := make([]float32, rows*width)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				var draws []sample.Draw
				for i := range rows {
					b.Add(0, i, 0, true)
					draws = append(draws, sample.Draw{Params: sample.Params{Temperature: float32(rng.IntN(3)) * 0.7, Seed: rng.Uint64()}, Position: i})
				}
				size := 0.05 * math.Exp(2*rng.NormFloat64()) // of logits, relative to a draw's noise
				if round == rounds-1 {
					x[width+rng.IntN(width)] = float32(math.NaN()) // in company
				}
				forward := func(ops compute.Ops) compute.Tensor {
					in, m := ops.(*step).tensor(rows, width)
					copy(m.rows, x)
					logits := ops.Logits(&b, in, w)
					if round%2 == 0 {
						return ops.Scale(logits, float32(size), 30)
					}
					return ops.Scale(logits, -float32(size), 0)
				}
				all, err := other.Run(forward)
				if err != nil {
					t.Fatal(err)
				}
				rough := false
				got, err := d.Sample(func(ops compute.Ops) compute.Tensor {
					y := forward(ops)
					rough = y.Mem.(*buffer).rough != nil
					return y
				}, draws)
				if err != nil {
					t.Fatal(err)
				}
				if rough == l.float {
					t.Fatalf("logits of weights in %s are rough: %v", l.name, rough)
				}
				for i, draw := range draws {
					want := new(sample.Sampler).Draw(all[i], draw)
					if got[i].Token != want.Token || fmt.Sprint(got[i].Err) != fmt.Sprint(want.Err) || (want.Err != nil) != (round == rounds-1 && i == 1) {
						t.Errorf("%s, round %d, row %d of %d, temperature %g: token %d, %v, want %d, %v", k.name, round, i, rows, draw.Temperature, got[i].Token, got[i].Err, want.Token, want.Err)
					}
				}
			}
		})
	}
}

// Whoever asks for more than a token makes all rows be multiplied whole.
func TestLogitsOfMoreThanTokensAreNotRough(t *testing.T) {
	d, rng := openTest(t, 1, sets[0]), rand.New(rand.NewPCG(5, 5))
	w, _ := packedRandom(t, d, rng, gguf.Q8_0, 64, 256)
	for !d.step.measure(w.Mem.(*packed)) {
	}
	var b compute.Batch
	b.Add(0, 0, 0, true)
	b.Add(0, 1, 0, true)
	for _, draws := range [][]sample.Draw{{{}, {LogProb: true}}, {{Top: 2}, {}}} {
		if _, err := d.Sample(func(ops compute.Ops) compute.Tensor {
			x, _ := drawn(ops.(*step), rng, 2, 256)
			y := ops.Logits(&b, x, w)
			if y.Mem.(*buffer).rough != nil {
				t.Errorf("logits for %+v are rough", draws)
			}
			return y
		}, draws); err != nil {
			t.Fatal(err)
		}
	}
}

// What is lost may lie along a row of the weight, all of it: then a logit is as far from its first product as the bound says, nearly.
func TestNoLogitIsFurtherFromItsFirstProductThanTheBound(t *testing.T) {
	const width, rows = 256, 3
	d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(7, 7))
	signs := make([]float32, width)
	for i := range signs {
		signs[i] = 1 - 2*float32(rng.IntN(2))
	}
	data := make([]byte, 272*16)
	format(t, gguf.Q8_0).Quantize(data[272*5:][:272], signs, nil) // the others are zeros
	w, err := d.Pack(gguf.Q8_0, 16, width, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !d.step.measure(w.Mem.(*packed)) {
	}
	var b compute.Batch
	x := make([]float32, rows*width)
	for r := range rows {
		b.Add(0, r, 0, true)
		for i := range width {
			x[r*width+i] = float32(rng.IntN(200)-100) + 0.49*signs[i]
			if i%blockLen == 0 {
				x[r*width+i] = 127
			}
		}
	}
	logits := func(roughly bool) (values []float32, slack []float64) {
		runStep(t, d, func(s *step) compute.Tensor {
			in, m := s.tensor(rows, width)
			copy(m.rows, x)
			s.roughly = roughly
			y := s.Logits(&b, in, w).Mem.(*buffer)
			values = append(values, y.rows...)
			if s.roughly = false; y.rough != nil {
				slack = y.rough.slack
			}
			return compute.Tensor{Mem: &buffer{}}
		})
		return values, slack
	}
	first, slack := logits(true)
	whole, _ := logits(false)
	for r := range rows {
		if far := math.Abs(float64(whole[r*16+5] - first[r*16+5])); far > slack[r] || far < 0.9*slack[r] {
			t.Errorf("row %d: the logit %g is %g from its first product, want at most %g and little less", r, whole[r*16+5], far, slack[r])
		}
	}
}
