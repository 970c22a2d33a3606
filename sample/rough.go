package sample

import "math"

// Rough reports whether the largest logits of a row are all that the draw looks at, so that DrawRough may answer it.
func (d *Draw) Rough() bool {
	return !d.Given && !d.LogProb && d.Top == 0 && len(d.Adjust) == 0 && d.Plan(math.MaxInt).n == 0
}

// DrawRough answers a draw that is Rough from logits that are known roughly: none is further than slack from what it is, but for one rounding. It asks
// for what those are that could be drawn, and gives what Draw gives for the row as it is. false: that takes the whole row, for some logit is no
// finite number.
func (s *Sampler) DrawRough(logits []float32, slack float64, d Draw, exact func(token int32) float32) (p Pick, ok bool) {
	best, err := argmax(logits, s.largest())
	if err != nil || !(slack <= math.MaxFloat32) {
		return p, false
	}
	slack += float64(math.Abs(float64(logits[best])) * 0x1p-22)
	g := gumbelMaximum{seed: d.Seed, position: d.Position, temperature: float64(d.Temperature)}
	if d.Greedy() {
		s.near = s.above(s.near[:0], logits, float64(logits[best])-2*slack)
	} else {
		s.near = g.near(s.near[:0], logits, best, 2*slack/g.temperature+1e-12)
	}
	most := math.Inf(-1)
	for _, c := range s.near {
		y := float64(exact(c.token))
		if !(math.Abs(y) <= math.MaxFloat32) {
			return p, false
		}
		if !d.Greedy() {
			y = y/g.temperature + Noise(g.seed, g.position, c.token)
		}
		if y > most {
			p.Token, most = c.token, y
		}
	}
	return p, true
}

// above appends the tokens whose logits are at least so large, ascending.
func (s *Sampler) above(to []contender, logits []float32, least float64) []contender {
	const piece = 256
	largest := s.largest()
	for from := 0; from < len(logits); from += piece {
		x := logits[from:min(from+piece, len(logits))]
		if float64(largest(x)) < least {
			continue
		}
		for i, v := range x {
			if float64(v) >= least {
				to = append(to, contender{token: int32(from + i)})
			}
		}
	}
	return to
}
