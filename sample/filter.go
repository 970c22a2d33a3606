package sample

import (
	"math"
	"math/bits"
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
	kept  []candidate
	units []uint64
}

// unfiltered reports whether every token of a vocabulary is kept.
func (p Params) unfiltered(vocab int) bool {
	return !p.limitsK(vocab) && !p.limitsP() && p.MinP == 0
}

func (p Params) limitsK(vocab int) bool { return p.TopK > 0 && p.TopK < vocab }
func (p Params) limitsP() bool          { return p.TopP > 0 && p.TopP < 1 }

// filter returns the tokens that top-k, then top-p, then min-p keep, in no stated order. largest is the row's largest
// logit. A token's weight is e^((logit-largest)/Temperature), so the likeliest token weighs 1 and every filter keeps it;
// a token at -Inf is never kept. On a boundary, equal logits are kept from the smallest token on.
//
// Top-p counts weights in whole units of 2^-44, dropping the rest: integers add up to the same in any order, so whoever adds
// them, and sorts or does not, finds the same boundary. It keeps the fewest first candidates that hold TopP of the units, the
// product rounded to float64 and then up, that all of what top-k kept have.
func (s *scratch) filter(p Params, logits []float32, largest float32) []candidate {
	w := weigher{largest: float64(largest), temperature: float64(p.Temperature)}
	minP := float64(p.MinP)
	switch {
	case p.limitsK(len(logits)):
		s.kept = topK(s.kept[:0], logits, p.TopK)
		if p.limitsP() {
			s.cutP(w, p.TopP)
		}
	case p.limitsP():
		s.headP(w, logits, p.TopP)
	default:
		s.kept = s.kept[:0]
		floor := log(minP) - 1e-3 // far below the error of exp and log: spares an exponential for most tokens
		for i, x := range logits {
			if w.exponent(x) >= floor && w.weight(x) >= minP {
				s.kept = append(s.kept, candidate{x, int32(i)})
			}
		}
		return s.kept
	}
	if minP > 0 {
		s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return w.weight(c.logit) < minP })
	}
	return s.kept
}

// weigher gives weights relative to the largest logit.
type weigher struct{ largest, temperature float64 }

func (w weigher) exponent(logit float32) float64 { return (float64(logit) - w.largest) / w.temperature }
func (w weigher) weight(logit float32) float64   { return exp(w.exponent(logit)) }

const (
	unit    = 0x1p-44 // a vocabulary of a million adds up to less than 2^64 of them
	noUnits = -31     // e^-31 is less than one
)

// units is the weight in units of 2^-44, rounded down.
func (w weigher) units(logit float32) uint64 {
	e := w.exponent(logit)
	if e < noUnits {
		return 0
	}
	return uint64(exp(e) / unit)
}

// share is the least whole number of units that is TopP of the total.
func share(topP float32, total uint64) uint64 {
	return uint64(math.Ceil(float64(topP) * float64(total)))
}

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
func (s *scratch) cutP(w weigher, topP float32) {
	s.units = s.units[:0]
	total := uint64(0)
	for _, c := range s.kept {
		u := w.units(c.logit)
		s.units = append(s.units, u)
		total += u
	}
	want, sum := share(topP, total), uint64(0)
	for i, u := range s.units {
		if sum += u; sum >= want {
			s.kept = s.kept[:i+1]
			return
		}
	}
}

// headP sets s.kept to the top-p head of the whole row. Sorting everything would cost more than all else here, so it
// adds the units by their number of bits first and sorts only down to the number that completes the share.
func (s *scratch) headP(w weigher, logits []float32, topP float32) {
	s.units = slices.Grow(s.units[:0], len(logits))[:len(logits)]
	var mass [64]uint64 // of tokens of so many bits
	total := uint64(0)
	for i, x := range logits {
		u := w.units(x)
		s.units[i] = u
		mass[bits.Len64(u)] += u
		total += u
	}
	want := share(topP, total)
	least, sum := len(mass)-1, uint64(0)
	for ; least > 1; least-- {
		if sum += mass[least]; sum >= want {
			break
		}
	}
	s.kept = s.kept[:0]
	for i, x := range logits {
		if bits.Len64(s.units[i]) >= least {
			s.kept = append(s.kept, candidate{x, int32(i)})
		}
	}
	slices.SortFunc(s.kept, compare)
	sum = 0
	for i, c := range s.kept {
		if sum += s.units[c.token]; sum >= want {
			s.kept = s.kept[:i+1]
			return
		}
	}
}
