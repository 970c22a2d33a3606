package sample

import (
	"fmt"
	"math"
)

// A Sampler picks tokens. It remembers nothing between calls but scratch memory: what it returns is a function of its
// Params and the call's arguments. It is not safe for concurrent use; give each goroutine its own.
type Sampler struct {
	params Params
	scratch
}

// New returns a Sampler, or an error that names the parameter that is out of range.
func New(p Params) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &Sampler{params: p}, nil
}

// Params returns what New was given.
func (s *Sampler) Params() Params { return s.params }

// Pick returns the token that follows, given the logits [vocab] of the row at an absolute position (that of the row, not
// of the token it predicts; any fixed convention will do, but engine and drafters must share it). It does not change
// logits.
//
// Greedy: the largest logit. Otherwise the largest of logit/Temperature + Noise among the tokens that the filters keep,
// in float64. Of equal ones the smallest token.
//
// It is an error if a logit is NaN or +Inf, or if none is above -Inf.
func (s *Sampler) Pick(logits []float32, position int) (token int32, err error) {
	best, err := argmax(logits)
	if err != nil {
		return 0, fmt.Errorf("sample: position %d: %w", position, err)
	}
	if s.params.Greedy() {
		return best, nil
	}
	d := draw{seed: s.params.Seed, position: position, temperature: float64(s.params.Temperature)}
	if s.unfiltered(len(logits)) {
		return d.fromAll(logits, best), nil
	}
	return d.from(s.filter(logits, logits[best])), nil
}

// argmax returns the largest logit's token, the smallest of equal ones. Its errors are those of Pick, without a prefix.
func argmax(logits []float32) (int32, error) {
	best, largest := -1, float32(math.Inf(-1))
	for i, x := range logits {
		if !(x <= largest) { // larger, or NaN
			if x != x {
				return 0, fmt.Errorf("the logit of token %d is NaN, want finite numbers or -Inf; a weight or a kernel is broken", i)
			}
			best, largest = i, x
		}
	}
	switch {
	case best < 0:
		return 0, fmt.Errorf("no token can be picked: all %d logits are -Inf, want one that is not banned", len(logits))
	case math.IsInf(float64(largest), 1):
		return 0, fmt.Errorf("the logit of token %d is +Inf, want finite numbers or -Inf; a weight or a kernel is broken", best)
	}
	return int32(best), nil
}

// draw is one Gumbel-max draw: score is compared, larger first, then smaller token.
type draw struct {
	seed        uint64
	position    int
	temperature float64
}

// from draws among candidates, of which there is at least one.
func (d draw) from(kept []candidate) int32 {
	token, best := int32(math.MaxInt32), math.Inf(-1)
	for _, c := range kept {
		y := float64(c.logit)/d.temperature + Noise(d.seed, d.position, c.token)
		if y > best || y == best && c.token < token {
			token, best = c.token, y
		}
	}
	return token
}

// fromAll draws among all tokens, as from would, but evaluates noise only where it could win. Starting from the largest
// logit, most tokens are out by gumbelMax alone, and of the others most by gumbelBound, which needs no logarithm.
func (d draw) fromAll(logits []float32, largest int32) int32 {
	token := largest
	best := float64(logits[largest])/d.temperature + Noise(d.seed, d.position, largest)
	for base := 0; base < len(logits); base += 4 {
		var words [4]uint32
		drawn := false
		for j, x := range logits[base:min(base+4, len(logits))] {
			y := float64(x) / d.temperature
			if y+gumbelMax < best {
				continue
			}
			if !drawn {
				words, drawn = noiseWords(d.seed, d.position, uint32(base/4)), true
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
