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

// LogProbs normalises the logits [vocab] of one row. Every log-probability that memra reports comes from here.
//
//	Of(t) = (x[t] - max x) - log(sum over i of e^(x[i] - max x))
//
// All in float64, rounded once to float32. Order: token i is added to lane i%256, tokens ascending, then the upper half
// of the lanes onto the lower until one is left. Errors are those of Pick.
func LogProbs(logits []float32) (Distribution, error) {
	best, err := argmax(logits)
	if err != nil {
		return Distribution{}, fmt.Errorf("sample: log-probabilities: %w", err)
	}
	largest := float64(logits[best])
	var lanes [sumLanes]float64
	for i, x := range logits {
		lanes[i%sumLanes] += exp(float64(x) - largest)
	}
	return Distribution{logits, largest, log(addLanes(&lanes))}, nil
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
