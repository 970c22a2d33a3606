package sample

import "fmt"

// A Distribution is the softmax of a row of raw logits: what the model said, whatever the sampler then did with it.
// It refers to the row and is valid while the row is.
type Distribution struct {
	logits  []float32
	largest float64
	logSum  float64 // log of the sum over tokens of e^(logit-largest)
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
func LogProbs(logits []float32) (Distribution, error) {
	best, err := argmax(logits)
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
	d := Distribution{logits: logits, largest: float64(logits[best])}
	sum := 0.0
	for len(logits) > 0 {
		n := min(segment, len(logits))
		sum += d.weigh(logits[:n])
		logits = logits[n:]
	}
	d.logSum = log(sum)
	return d
}

// weigh adds up a segment.
func (d *Distribution) weigh(logits []float32) float64 {
	var lane [lanes]float64
	for i, x := range logits {
		lane[i%lanes] += exp(float64(x) - d.largest)
	}
	for half := lanes / 2; half > 0; half /= 2 {
		for j := range half {
			lane[j] += lane[j+half]
		}
	}
	return lane[0]
}

// Of returns the log-probability of a token: -Inf for a token whose logit is. It panics if the row has no such token.
func (d Distribution) Of(token int32) float32 {
	return float32((float64(d.logits[token]) - d.largest) - d.logSum)
}

// Top returns the k likeliest tokens (fewer where fewer are above -Inf), likeliest first, smaller token first among
// equals.
func (d Distribution) Top(k int) []TokenLogProb {
	if k <= 0 {
		return nil
	}
	first := topK(nil, d.logits, k)
	top := make([]TokenLogProb, len(first))
	for i, c := range first {
		top[i] = TokenLogProb{c.token, d.Of(c.token)}
	}
	return top
}
