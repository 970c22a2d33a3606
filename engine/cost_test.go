package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestPromptsSlowDecodingDownByNoMoreThanTheirShare(t *testing.T) {
	for _, c := range []struct {
		name     string
		decoding int
		drafts   int                                // up to so many more rows decode, now and then
		seconds  func(decoding, riding int) float64 // that a step takes
		least    float64                            // rows of prompts a second, as a share of what could ride within the bound
	}{
		{"each row costs the same", 16, 0, func(d, r int) float64 { return 1e-3 * float64(d+r) }, 0.8},
		{"weights are read once", 16, 0, func(d, r int) float64 { return 0.01 + 1e-4*float64(d+r) }, 0.8},
		{"rows are free up to a limit", 8, 0, func(d, r int) float64 { return max(0.006, 5e-5*float64(d+r)) }, 0.6},
		{"a stream alone", 1, 0, func(d, r int) float64 { return 3e-4 + 1e-4*float64(d+r) }, 0.7},
		{"a chunk is dear, its rows are not", 16, 0, func(d, r int) float64 { return 0.003 + 0.004*float64(min(r, 1)) + 1e-5*float64(r) }, 0.3},
		{"drafts change the rows of each step", 16, 64, func(d, r int) float64 { return 0.01 + 1e-4*float64(d+r) }, 0.7},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := share{alone: map[int]*alone{}}
			spent, alone, rows := 0.0, 0.0, 0
			for step := range 4000 {
				decoding := c.decoding + rng.IntN(c.drafts+1)
				n := min(s.beside(decoding, 1<<20), 256)
				took := c.seconds(decoding, n) * (1 + 0.1*rng.Float64())
				if rng.IntN(100) == 0 {
					took *= 10 // the machine did something else
				}
				s.learn(decoding, n, time.Duration(took*1e9))
				if step >= 200 {
					spent, alone, rows = spent+c.seconds(decoding, n), alone+c.seconds(decoding, 0), rows+n
				}
			}
			if slow := spent / alone; slow > slower+0.1 {
				t.Errorf("%.2f times slower, want at most %v", slow, slower)
			}
			best := 0.0 // rows a second, of any constant number
			for n := 1; n <= 256; n++ {
				extra := c.seconds(c.decoding, n) - c.seconds(c.decoding, 0)
				budget := (slower - 1) * c.seconds(c.decoding, 0)
				best = max(best, float64(n)*min(1, budget/max(extra, 1e-12))/c.seconds(c.decoding, 0)/slower)
			}
			if rate := float64(rows) / spent; rate < c.least*best {
				t.Errorf("%.0f rows of prompts a second, %.0f could ride", rate, best)
			}
		})
	}
}
