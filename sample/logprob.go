package sample

import "fmt"

// A Distribution is the probabilities that a row of logits stands for: of the raw logits, what the model said, whatever the sampler then
// did with it; or of what is drawn from. It refers to the row and is valid while the row is.
type Distribution struct {
	logits  []float32
	kept    run
	weigher         // relative to the first of kept
	logSum  float64 // log of the sum over kept of e^exponent
}

// TokenLogProb is a token and the natural logarithm of its probability.
type TokenLogProb struct {
	Token   int32
	LogProb float32
}

// LogProbs normalises the logits [vocab] of one row. Every log-probability that memra reports is made like this.
//
//	Of(t) = (x[t] - max x) - log(sum over i of e^(x[i] - max x))
//
// All in float64, rounded once to float32. Order: within a segment of 4096 tokens, token i is added to lane i%256, tokens
// ascending, then the upper half of the lanes onto the lower until one is left; segments are added ascending. So a device may
// give a segment to 256 threads, and every segment to others. Its error is a *RowError.
//
// Log-probabilities of what is drawn from (Draw.Filtered) have (x[t] - max x)/temperature for x[t] - max x, the maximum and the sum being
// over what the filters kept, in the same order; other tokens are at -Inf. A temperature of 0 leaves one token.
func LogProbs(logits []float32) (Distribution, error) {
	best, err := argmax(logits, Largest)
	if err != nil {
		return Distribution{}, fmt.Errorf("sample: log-probabilities: %w", err)
	}
	return distribution(logits, best), nil
}

const (
	segment = 4096
	lanes   = 256
)

// distribution normalises a row whose largest logit is that of token best.
func distribution(logits []float32, best int32) Distribution {
	d := Distribution{logits: logits, kept: everything, weigher: weigher{float64(logits[best]), 1}}
	d.logSum = log(d.sum(func(part []float32, _ int, lane *[lanes]float64) {
		for i, x := range part {
			lane[i%lanes] += exp(float64(x) - d.largest)
		}
	}))
	return d
}

// filtered normalises what is left of a row.
func filtered(logits []float32, kept run, temperature float32) Distribution {
	d := Distribution{logits: logits, kept: kept, weigher: weigher{float64(kept.first.logit), float64(temperature)}}
	if temperature == 0 {
		d.kept.last, d.temperature = d.kept.first, 1
	}
	d.logSum = log(d.sum(func(part []float32, from int, lane *[lanes]float64) {
		for i, x := range part {
			if d.kept.has(candidate{x, int32(from + i)}) {
				lane[i%lanes] += exp(d.exponent(x))
			}
		}
	}))
	return d
}

// sum adds up what add makes of the lanes of segments.
func (d *Distribution) sum(add func(part []float32, from int, lane *[lanes]float64)) float64 {
	sum := 0.0
	for from := 0; from < len(d.logits); from += segment {
		var lane [lanes]float64
		add(d.logits[from:min(from+segment, len(d.logits))], from, &lane)
		sum += fold(&lane)
	}
	return sum
}

// fold adds up lanes.
func fold(lane *[lanes]float64) float64 {
	for half := lanes / 2; half > 0; half /= 2 {
		for j := range half {
			lane[j] += lane[j+half]
		}
	}
	return lane[0]
}

// Of returns the log-probability of a token: -Inf for a token that cannot be drawn. It panics if the row has no such token.
func (d Distribution) Of(token int32) float32 {
	c := candidate{d.logits[token], token}
	if !d.kept.has(c) {
		return everything.last.logit
	}
	return float32(d.exponent(c.logit) - d.logSum)
}

// Top returns the k likeliest tokens (fewer where fewer are above -Inf), likeliest first, smaller token first among
// equals.
func (d Distribution) Top(k int) []TokenLogProb {
	if k <= 0 {
		return nil
	}
	first := topK(nil, d.logits, k, d.kept)
	top := make([]TokenLogProb, len(first))
	for i, c := range first {
		top[i] = TokenLogProb{c.token, d.Of(c.token)}
	}
	return top
}
