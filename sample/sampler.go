package sample

import "slices"

// A Sampler answers draws. It remembers nothing between them but scratch memory: a Pick is a function of the row and the Draw.
// The zero Sampler is ready. It is not safe for concurrent use; give each goroutine its own.
type Sampler struct {
	Largest func(logits []float32) float32 // what is faster than the function of that name and gives the same; nil: that
	scratch
}

// Draw answers a draw, which Check has passed, from the logits [vocab] of its row. It leaves logits as they were; while it runs, a draw with
// adjustments has them changed.
//
// Greedy: the largest logit. Otherwise the largest of logit/Temperature + Noise among the tokens that the filters keep,
// in float64. Of equal ones the smallest token. The log-probabilities are those of LogProbs.
//
// A row with a NaN or a +Inf, or with nothing above -Inf, is refused: Pick.Err.
func (s *Sampler) Draw(logits []float32, d Draw) Pick {
	if len(d.Adjust) == 0 || d.Given && !d.Filtered {
		return s.draw(logits, &d, true)
	}
	s.adjust(logits, &d)
	p := s.draw(logits, &d, d.Filtered)
	s.restore(logits, &d)
	if p.Err == nil && !d.Filtered && (d.LogProb || d.Top > 0) {
		q, _ := LogProbs(logits) // adjusted it was sound, so it is
		q.report(&d, &p)
	}
	return p
}

// draw answers from adjusted logits; report says whether the answer's log-probabilities are of these.
func (s *Sampler) draw(logits []float32, d *Draw, report bool) (p Pick) {
	best, err := argmax(logits, s.largest())
	if err != nil {
		return d.Refuse(err)
	}
	report = report && (d.LogProb || d.Top > 0)
	var plan Plan
	if !d.Given || report && d.Filtered {
		plan = d.Plan(len(logits))
	}
	left := run{candidate{logits[best], best}, everything.last}
	if plan.n > 0 {
		left = runOf(s.filter(d, plan, logits, logits[best]))
	}
	g := gumbelMaximum{seed: d.Seed, position: d.Position, temperature: float64(d.Temperature)}
	switch {
	case d.Given:
		p.Token = d.Token
	case d.Greedy():
		p.Token = left.first.token
	case plan.n > 0:
		p.Token = g.of(s.kept, left.first)
	default:
		s.near = g.near(s.near[:0], logits, best, 0)
		p.Token = s.near[0].token
	}
	switch {
	case report && d.Filtered:
		filtered(logits, left, d.Temperature).report(d, &p)
	case report:
		distribution(logits, best).report(d, &p)
	}
	return p
}

func (s *Sampler) largest() func([]float32) float32 {
	if s.Largest == nil {
		return Largest
	}
	return s.Largest
}

// report is what a draw asks of a distribution.
func (q Distribution) report(d *Draw, p *Pick) {
	if d.LogProb {
		p.LogProb = q.Of(p.Token)
	}
	p.Top = q.Top(d.Top)
}

// gumbelMaximum finds the token of the largest score, logit/temperature + noise; the smallest of equal ones.
type gumbelMaximum struct {
	seed        uint64
	position    int
	temperature float64
}

// of is the maximum over candidates, of which first is the first in their order. It evaluates noise only where it could win, and draws the
// words of neighbours once.
func (g gumbelMaximum) of(kept []candidate, first candidate) int32 {
	token := first.token
	best := float64(first.logit)/g.temperature + Noise(g.seed, g.position, token)
	group, words := uint32(token)/4, noiseWords(g.seed, g.position, uint32(token)/4)
	for _, c := range kept {
		y := float64(c.logit) / g.temperature
		if y+gumbelMax < best {
			continue
		}
		if of := uint32(c.token) / 4; of != group {
			group, words = of, noiseWords(g.seed, g.position, of)
		}
		if y+gumbelBound(words[c.token&3]) < best {
			continue
		}
		y += gumbel(words[c.token&3])
		if y > best || y == best && c.token < token {
			token, best = c.token, y
		}
	}
	return token
}

// near appends the tokens whose scores are within a margin of the largest, ascending. It evaluates noise only where that could make a score large
// enough: starting from the largest logit, most tokens are out by gumbelMax alone, and of the others most by gumbelBound, which needs no logarithm.
func (g gumbelMaximum) near(to []contender, logits []float32, largest int32, margin float64) []contender {
	least := float64(logits[largest])/g.temperature + Noise(g.seed, g.position, largest) - margin
	for base := 0; base < len(logits); base += 4 {
		var words [4]uint32
		drawn := false
		for j, x := range logits[base:min(base+4, len(logits))] {
			y := float64(x) / g.temperature
			if y+gumbelMax < least {
				continue
			}
			if !drawn {
				words, drawn = noiseWords(g.seed, g.position, uint32(base/4)), true
			}
			if y+gumbelBound(words[j]) < least {
				continue
			}
			if y += gumbel(words[j]); y >= least {
				least, to = max(least, y-margin), append(to, contender{int32(base + j), y})
			}
		}
	}
	return slices.DeleteFunc(to, func(c contender) bool { return c.score < least })
}

// contender is a token that could be drawn, and its score.
type contender struct {
	token int32
	score float64
}
