package sample

import "math"

// A Sampler answers draws. It remembers nothing between them but scratch memory: a Pick is a function of the row and the Draw.
// The zero Sampler is ready. It is not safe for concurrent use; give each goroutine its own.
type Sampler struct{ scratch }

// Draw answers a draw, which Check has passed, from the logits [vocab] of its row. It does not change logits.
//
// Greedy: the largest logit. Otherwise the largest of logit/Temperature + Noise among the tokens that the filters keep,
// in float64. Of equal ones the smallest token. The log-probabilities are those of LogProbs.
//
// A row with a NaN or a +Inf, or with nothing above -Inf, is refused: Pick.Err.
func (s *Sampler) Draw(logits []float32, d Draw) (p Pick) {
	best, err := argmax(logits)
	if err != nil {
		return d.Refuse(err)
	}
	g := gumbelMaximum{seed: d.Seed, position: d.Position, temperature: float64(d.Temperature)}
	switch {
	case d.Given:
		p.Token = d.Token
	case d.Greedy():
		p.Token = best
	case d.unfiltered(len(logits)):
		p.Token = g.ofAll(logits, best)
	default:
		p.Token = g.of(s.filter(d.Params, logits, logits[best]))
	}
	if d.LogProb || d.Top > 0 {
		q := distribution(logits, best)
		if d.LogProb {
			p.LogProb = q.Of(p.Token)
		}
		p.Top = q.Top(d.Top)
	}
	return p
}

// gumbelMaximum finds the token of the largest score, logit/temperature + noise; the smallest of equal ones.
type gumbelMaximum struct {
	seed        uint64
	position    int
	temperature float64
}

// of is the maximum over candidates, of which there is at least one.
func (g gumbelMaximum) of(kept []candidate) int32 {
	token, best := int32(math.MaxInt32), math.Inf(-1)
	for _, c := range kept {
		y := float64(c.logit)/g.temperature + Noise(g.seed, g.position, c.token)
		if y > best || y == best && c.token < token {
			token, best = c.token, y
		}
	}
	return token
}

// ofAll is the maximum over all tokens, as of would find it, but evaluates noise only where it could win. Starting from the
// largest logit, most tokens are out by gumbelMax alone, and of the others most by gumbelBound, which needs no logarithm.
func (g gumbelMaximum) ofAll(logits []float32, largest int32) int32 {
	token := largest
	best := float64(logits[largest])/g.temperature + Noise(g.seed, g.position, largest)
	for base := 0; base < len(logits); base += 4 {
		var words [4]uint32
		drawn := false
		for j, x := range logits[base:min(base+4, len(logits))] {
			y := float64(x) / g.temperature
			if y+gumbelMax < best {
				continue
			}
			if !drawn {
				words, drawn = noiseWords(g.seed, g.position, uint32(base/4)), true
			}
			if y+gumbelBound(words[j]) < best {
				continue
			}
			y += gumbel(words[j])
			if t := int32(base + j); y > best || y == best && t < token {
				token, best = t, y
			}
		}
	}
	return token
}
