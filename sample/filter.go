package sample

import (
	"math"
	"slices"
)

// candidate is a token that the filters may keep.
type candidate struct {
	logit float32
	token int32
}

// before is the order of candidates: larger logit first, smaller token first among equals.
func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.token < b.token
}

func compare(a, b candidate) int {
	if a.before(b) {
		return -1
	}
	return 1 // no two candidates are equal: their tokens differ
}

// scratch is memory that filter reuses from call to call.
type scratch struct {
	kept   []candidate
	weight []float64
}

// unfiltered reports whether every token of a vocabulary is kept.
func (s *Sampler) unfiltered(vocab int) bool {
	return !s.limitsK(vocab) && !s.limitsP() && s.params.MinP == 0
}

func (s *Sampler) limitsK(vocab int) bool { return s.params.TopK > 0 && s.params.TopK < vocab }
func (s *Sampler) limitsP() bool          { return s.params.TopP > 0 && s.params.TopP < 1 }

// filter returns the tokens that top-k, then top-p, then min-p keep, in no stated order. largest is the row's largest
// logit. A token's weight is e^((logit-largest)/Temperature), so the likeliest token weighs 1 and every filter keeps it;
// a token at -Inf is never kept. On a boundary, equal logits are kept from the smallest token on.
//
// Top-p compares running sums, taken in the order of candidates, with TopP times the weight of all that top-k kept: the
// last running sum where top-k is on, sumWeights where it is off.
func (s *Sampler) filter(logits []float32, largest float32) []candidate {
	w := weigher{largest: float64(largest), temperature: float64(s.params.Temperature)}
	minP := float64(s.params.MinP)
	if s.limitsK(len(logits)) {
		s.kept = topK(s.kept[:0], logits, s.params.TopK)
		if s.limitsP() {
			s.cutP(w)
		}
		if minP > 0 {
			s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return w.weight(c.logit) < minP })
		}
		return s.kept
	}
	if s.limitsP() {
		s.headP(w, logits)
		if minP > 0 {
			s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return w.weight(c.logit) < minP })
		}
		return s.kept
	}
	s.kept = s.kept[:0]
	floor := log(minP) - 1e-3 // far below the error of exp and log: spares an exponential for most tokens
	for i, x := range logits {
		if w.exponent(x) >= floor && w.weight(x) >= minP {
			s.kept = append(s.kept, candidate{x, int32(i)})
		}
	}
	return s.kept
}

// weigher gives weights relative to the largest logit.
type weigher struct{ largest, temperature float64 }

func (w weigher) exponent(logit float32) float64 { return (float64(logit) - w.largest) / w.temperature }
func (w weigher) weight(logit float32) float64   { return exp(w.exponent(logit)) }

// topK appends the k first candidates of logits to dst, sorted. It keeps a heap with the last of them on top, which few
// logits of a long row beat.
func topK(dst []candidate, logits []float32, k int) []candidate {
	h := dst
	for i, x := range logits {
		if math.IsInf(float64(x), -1) {
			continue
		}
		c := candidate{x, int32(i)}
		switch {
		case len(h) < k:
			h = append(h, c)
			for j := len(h) - 1; j > 0 && h[(j-1)/2].before(h[j]); j = (j - 1) / 2 {
				h[j], h[(j-1)/2] = h[(j-1)/2], h[j]
			}
		case c.before(h[0]):
			h[0] = c
			for j := 0; ; {
				last := j
				for child := 2*j + 1; child <= 2*j+2 && child < len(h); child++ {
					if h[last].before(h[child]) {
						last = child
					}
				}
				if last == j {
					break
				}
				h[j], h[last] = h[last], h[j]
				j = last
			}
		}
	}
	slices.SortFunc(h, compare)
	return h
}

// cutP shortens the sorted s.kept to its top-p head.
func (s *Sampler) cutP(w weigher) {
	s.weight = s.weight[:0]
	sum := 0.0
	for _, c := range s.kept {
		sum += w.weight(c.logit)
		s.weight = append(s.weight, sum) // here: running sums
	}
	want := float64(float64(s.params.TopP) * sum)
	for i, sum := range s.weight {
		if sum >= want {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// headP sets s.kept to the top-p head of the whole row. Sorting everything would cost more than all else here, so it
// sums the weights by their binary exponent first and sorts only down to the exponent that completes the share.
func (s *Sampler) headP(w weigher, logits []float32) {
	s.weight = slices.Grow(s.weight[:0], len(logits))[:len(logits)]
	var mass [1024]float64 // of weights from 2^-i up to 2^(1-i)
	for i, x := range logits {
		e := w.weight(x)
		s.weight[i] = e
		mass[1023-math.Float64bits(e)>>52] += e
	}
	want := float64(float64(s.params.TopP) * sumWeights(s.weight))
	floor, sum := 1.0, mass[0]
	for i := 1; i < len(mass) && sum < want; i++ {
		floor /= 2
		sum += mass[i]
	}
	if s.sortedHead(logits, floor, want) {
		return
	}
	s.sortedHead(logits, 0, want) // the other order of additions came out a rounding short
}

// sortedHead sets s.kept to the shortest sorted head of the tokens that weigh at least floor whose running sum is want,
// or to all of them, which it reports by returning false.
func (s *Sampler) sortedHead(logits []float32, floor, want float64) bool {
	s.kept = s.kept[:0]
	for i, x := range logits {
		if s.weight[i] >= floor && !math.IsInf(float64(x), -1) {
			s.kept = append(s.kept, candidate{x, int32(i)})
		}
	}
	slices.SortFunc(s.kept, compare)
	sum := 0.0
	for i, c := range s.kept {
		sum += s.weight[c.token]
		if sum >= want {
			s.kept = s.kept[:i+1]
			return true
		}
	}
	return false
}

// sumWeights adds a row's weights [vocab] in the order that a device can follow too: token i into lane i%256, tokens
// ascending, then the upper half of the lanes onto the lower until one is left.
func sumWeights(weights []float64) float64 {
	var lanes [sumLanes]float64
	for i, e := range weights {
		lanes[i%sumLanes] += e
	}
	return addLanes(&lanes)
}

const sumLanes = 256

func addLanes(lanes *[sumLanes]float64) float64 {
	for half := sumLanes / 2; half > 0; half /= 2 {
		for j := range half {
			lanes[j] += lanes[j+half]
		}
	}
	return lanes[0]
}
