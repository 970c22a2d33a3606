package check

import (
	"fmt"
	"math"

	"memra/compute"
	"memra/sample"
)

// draws are the checks of sampling: the tokens, and the bits of log-probabilities, are package sample's for the logits that the device
// itself brings back, whatever a row's company asks for.
func (c *checker) draws() (string, error) {
	compared := 0
	for _, vocab := range pick(c, 1, 9000, 304, 131_072) {
		const rows = 12
		logits := c.normal(rows, vocab, 3)
		for r := range rows {
			row := logits.row(r)
			switch r % 4 {
			case 1: // ties
				for i, v := range row {
					row[i] = float32(math.Round(2*float64(v)) / 2)
				}
			case 2: // banned tokens
				for i := range row {
					if i%3 > 0 {
						row[i] = float32(math.Inf(-1))
					}
				}
			}
		}
		table, err := c.device.Pack(f32, rows, vocab, encode(f32, logits.values), nil)
		if err != nil {
			return "", err
		}
		b := new(compute.Batch)
		draws := make([]sample.Draw, rows)
		for r := range draws {
			b.Add(int32(r), r, -1, false)
			p := sample.Params{Temperature: 0.5 + c.rng.Float32(), Seed: c.rng.Uint64()}
			if r%3 == 0 {
				p.TopK = 1 + c.rng.IntN(200)
			}
			if r%2 == 0 {
				p.TopP = 0.5 + c.rng.Float32()/2
			}
			if r%5 == 0 {
				p.MinP = 0.02
			}
			switch r % 6 {
			case 3:
				p.TopNSigma, p.Typical = 2, 0.9
			case 4:
				p.XTC = sample.XTC{Probability: 1, Threshold: 0.001}
				p.Order = []sample.Filter{sample.ByXTC, sample.ByTopP, sample.ByMinP, sample.ByTopK, sample.ByTemperature}
			case 5:
				p.RepeatPenalty, p.FrequencyPenalty, p.DRY = 1.3, 0.5, sample.DRY{Multiplier: 1, Base: 1.75, AllowedLength: 1}
				p.Banned = []int32{1}
			}
			h, err := sample.NewHistory(p, vocab)
			if err != nil {
				return "", err
			}
			for range 200 {
				h.Append(c.rng.Int32N(int32(min(vocab, 40))))
			}
			draws[r] = h.Draw()
			draws[r].Position, draws[r].LogProb, draws[r].Top, draws[r].Filtered = c.rng.IntN(1<<20), true, r, r%4 == 3
		}
		draws[1].Params = sample.Params{} // greedy
		draws[2].Given, draws[2].Token = true, c.rng.Int32N(int32(vocab))
		forward := func(ops compute.Ops) compute.Tensor { return ops.Embed(b, table, 1) }
		values, err := c.device.Run(forward)
		if err != nil {
			return "", err
		}
		var s sample.Sampler
		want := make([]sample.Pick, rows)
		for r, row := range values {
			want[r] = s.Draw(row, draws[r])
		}
		got, err := c.device.Sample(forward, draws)
		if err != nil {
			return "", err
		}
		for r := range want {
			if fmt.Sprint(got[r]) != fmt.Sprint(want[r]) {
				return "", fmt.Errorf("vocabulary of %d, row %d of %d, %+v: %+v, want %+v", vocab, r, rows, draws[r], got[r], want[r])
			}
			compared++
		}
	}
	return fmt.Sprintf("0 of %d draws differ", compared), nil
}
