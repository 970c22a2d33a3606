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

// run is a run of the order of candidates, from first to last. What a filter leaves of a run is a run.
type run struct{ first, last candidate }

// everything is all that is above -Inf.
var everything = run{candidate{float32(math.Inf(1)), -1}, candidate{float32(math.Inf(-1)), -1}}

func (r run) has(c candidate) bool { return !c.before(r.first) && !r.last.before(c) }

// runOf is the run that candidates make up, of which there is at least one.
func runOf(kept []candidate) run {
	r := run{kept[0], kept[0]}
	for _, c := range kept[1:] {
		if c.before(r.first) {
			r.first = c
		} else if r.last.before(c) {
			r.last = c
		}
	}
	return r
}

// scratch is memory that draws reuse from call to call. The candidates that are left of a row are all of them, or those in kept.
type scratch struct {
	logits []float32
	all    bool
	kept   []candidate
	sorted bool

	edge      []candidate // where top-p cuts
	distances []float32   // of typical
	ring      []deviant   // where it cuts
	were      []float32   // logits before adjustments
	near      []contender // for the largest score
}

// filter returns the tokens that the filters of a plan keep, in no stated order: at least one. largest is the row's largest logit.
//
// A token weighs e^exponent with exponent = (logit-largest)/temperature, the temperature being 1 for filters that come before it in the
// order. Sums of weights are counted in whole units of 2^-44, dropping the rest of each: integers add up to the same in any order, so
// whoever adds them, and sorts or does not, finds the same boundary. On a boundary, equal logits are kept from the smallest token on.
//
// The largest logit of a row is never dropped but by typical and XTC; a token at -Inf is never kept.
func (s *scratch) filter(d *Draw, p Plan, logits []float32, largest float32) []candidate {
	s.logits, s.all = logits, true
	w := weigher{float64(largest), 1}
	for i, f := range p.Filters() {
		if i == p.Cold() {
			w.temperature = float64(d.Temperature)
		}
		switch f {
		case ByTopNSigma:
			s.topNSigma(w, d.TopNSigma)
		case ByTopK:
			s.topK(d.TopK)
		case ByTypical:
			s.typical(w, d.Typical)
		case ByTopP:
			s.topP(w, d.TopP)
		case ByMinP:
			s.minP(w, d.MinP)
		case ByXTC:
			s.xtc(w, d.XTC.Threshold)
		}
	}
	return s.kept
}

// weigher gives weights relative to the largest logit.
type weigher struct{ largest, temperature float64 }

func (w weigher) exponent(logit float32) float64 { return (float64(logit) - w.largest) / w.temperature }

const (
	unit    = 0x1p-44 // a vocabulary of a million adds up to less than 2^64 of them
	noUnits = -31     // e^-31 is less than one
)

// units is the weight of an exponent in units of 2^-44, rounded down.
func units(exponent float64) uint64 {
	if exponent < noUnits {
		return 0
	}
	return uint64(exp(exponent) / unit)
}

// share is the least whole number of units that is a part p of the total: the product rounded to float64, and then up.
func share(p float32, total uint64) uint64 {
	return uint64(math.Ceil(float64(p) * float64(total)))
}

// list makes kept the candidates that are left.
func (s *scratch) list() []candidate {
	if s.all {
		s.all, s.sorted, s.kept = false, false, s.kept[:0]
		for i, x := range s.logits {
			if !math.IsInf(float64(x), -1) {
				s.kept = append(s.kept, candidate{x, int32(i)})
			}
		}
	}
	return s.kept
}

// first is the first candidate that is left; largest is the row's largest logit.
func (s *scratch) first(largest float64) float32 {
	if s.all {
		return float32(largest)
	}
	return runOf(s.kept).first.logit
}

// topNSigma keeps logits that are at least first - n·σ: first is the largest left, and σ the standard deviation of all that the row has
// above -Inf, whatever was left of it.
func (s *scratch) topNSigma(w weigher, n float32) {
	floor := float64(s.first(w.largest)) - float64(float64(n)*deviation(s.logits, w.largest))
	s.floor(w, func(x float32) bool { return float64(x) >= floor })
}

// deviation is the standard deviation of the logits above -Inf. With d = logit - largest:
//
//	σ = sqrt(max(0, Σd²/n - (Σd/n)²))
//
// in float64. Order: that of LogProbs.
func deviation(logits []float32, largest float64) float64 {
	var sum, squares float64
	n := 0
	for len(logits) > 0 {
		part := logits[:min(segment, len(logits))]
		logits = logits[len(part):]
		var lane, square [lanes]float64
		for i, x := range part {
			if math.IsInf(float64(x), -1) {
				continue
			}
			d := float64(x) - largest
			lane[i%lanes] += d
			square[i%lanes] += float64(d * d)
			n++
		}
		sum += fold(&lane)
		squares += fold(&square)
	}
	mean := sum / float64(n)
	return math.Sqrt(max(0, squares/float64(n)-float64(mean*mean)))
}

// topK keeps the k first candidates.
func (s *scratch) topK(k int) {
	if s.all {
		s.kept, s.all, s.sorted = topK(s.kept[:0], s.logits, k, everything), false, true
		return
	}
	s.sort()
	s.kept = s.kept[:min(k, len(s.kept))]
}

func (s *scratch) sort() {
	if !s.sorted {
		slices.SortFunc(s.kept, compare)
		s.sorted = true
	}
}

// topP keeps the fewest first candidates that hold the share p of the units of all that are left, at least one. Sorting everything would cost
// more than all else here, so units are added by eighths of the exponent first, and those of one eighth alone are sorted.
func (s *scratch) topP(w weigher, p float32) {
	var mass [-8*noUnits + 1]uint64
	total := uint64(0)
	kept := s.list()
	for _, c := range kept {
		if e := w.exponent(c.logit); e >= noUnits {
			u := units(e)
			mass[int(-8*e)] += u
			total += u
		}
	}
	if total == 0 {
		s.kept, s.sorted = append(kept[:0], runOf(kept).first), true
		return
	}
	want := share(p, total)
	edge, sum := 0, uint64(0)
	for ; sum+mass[edge] < want; edge++ {
		sum += mass[edge]
	}
	s.kept, s.edge = kept[:0], s.edge[:0]
	for _, c := range kept {
		switch e := -8 * w.exponent(c.logit); {
		case e < float64(edge):
			s.kept = append(s.kept, c)
		case e < float64(edge+1):
			s.edge = append(s.edge, c)
		}
	}
	slices.SortFunc(s.edge, compare)
	for i, c := range s.edge {
		if sum += units(w.exponent(c.logit)); sum >= want {
			s.kept = append(s.kept, s.edge[:i+1]...) // sorted, if it was
			return
		}
	}
	panic("sample: top-p: less than the units of all")
}

// minP keeps candidates whose exponent is at least log(p) + that of the first left.
func (s *scratch) minP(w weigher, p float32) {
	floor := log(float64(p)) + w.exponent(s.first(w.largest))
	s.floor(w, func(x float32) bool { return w.exponent(x) >= floor })
}

// floor keeps logits for which enough, which is true from some logit on, is true.
func (s *scratch) floor(w weigher, enough func(float32) bool) {
	least := leastLogit(float32(w.largest), enough)
	if !s.all {
		s.kept = slices.DeleteFunc(s.kept, func(c candidate) bool { return c.logit < least })
		return
	}
	s.all, s.sorted, s.kept = false, false, s.kept[:0]
	for i, x := range s.logits {
		if x >= least {
			s.kept = append(s.kept, candidate{x, int32(i)})
		}
	}
}

// leastLogit is the smallest finite logit for which enough is true, which is so from some logit up to from.
func leastLogit(from float32, enough func(float32) bool) float32 {
	low, high := key(-math.MaxFloat32), key(from)
	for low < high {
		if middle := low + (high-low)/2; enough(logitOf(middle)) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return logitOf(low)
}

// key is a number in the order of logits: a larger logit has a larger one.
func key(x float32) uint32 {
	u := math.Float32bits(x + 0) // -0 is 0
	if u>>31 != 0 {
		return ^u
	}
	return u | 1<<31
}

func logitOf(key uint32) float32 {
	if key>>31 != 0 {
		return math.Float32frombits(key &^ (1 << 31))
	}
	return math.Float32frombits(^key)
}

// deviant is a candidate's distance from what typical expects, and its units.
type deviant struct {
	distance float32
	units    uint64
}

// typical keeps the candidates whose exponents are nearest to the mean exponent, those of equal distance together, and no more than it takes
// for them to hold the share p of the units of all that are left. A token's information is -log(probability), which is a
// constant less its exponent, so this distance is that from the entropy ("locally typical sampling", arXiv:2202.00666).
//
//	mean = -(Σ floor(e^exponent · -exponent / 2^-44)) / (Σ units)    distance = |exponent - mean|
//
// in float64; the distance rounded to float32. If nothing that is left weighs a unit, all is kept.
func (s *scratch) typical(w weigher, p float32) {
	kept := s.list()
	total, moment := uint64(0), uint64(0)
	for _, c := range kept {
		if e := w.exponent(c.logit); e >= noUnits {
			weight := exp(e)
			total += uint64(weight / unit)
			moment += uint64(float64(weight*-e) / unit)
		}
	}
	if total == 0 {
		return
	}
	mean := -(float64(moment) / float64(total))
	distance := func(c candidate) float32 { return float32(math.Abs(w.exponent(c.logit) - mean)) }
	limit := s.reach(w, kept, distance, share(p, total))
	s.kept = slices.DeleteFunc(kept, func(c candidate) bool { return distance(c) > limit })
}

// reach is the distance at which the units of nearer candidates and its own come to `want`. It adds by the first bits of distances, and
// sorts those alone that have the bits with which the sum is reached.
func (s *scratch) reach(w weigher, kept []candidate, distance func(candidate) float32, want uint64) float32 {
	const drop = 20
	var mass [1 << (31 - drop)]uint64
	s.distances = s.distances[:0]
	for _, c := range kept {
		d := distance(c)
		s.distances = append(s.distances, d)
		mass[math.Float32bits(d)>>drop] += units(w.exponent(c.logit))
	}
	bin, sum := uint32(0), uint64(0)
	for ; sum+mass[bin] < want; bin++ {
		sum += mass[bin]
	}
	s.ring = s.ring[:0]
	for i, d := range s.distances {
		if math.Float32bits(d)>>drop == bin {
			s.ring = append(s.ring, deviant{d, units(w.exponent(kept[i].logit))})
		}
	}
	slices.SortFunc(s.ring, func(a, b deviant) int {
		if a.distance < b.distance {
			return -1
		}
		return 1
	})
	for _, d := range s.ring {
		if sum += d.units; sum >= want {
			return d.distance
		}
	}
	panic("sample: typical: less than the units of all")
}

// xtc drops, of the candidates whose exponent is at least log(threshold · units left · 2^-44), all but the last: of those that are at
// least so likely, the least likely one stays. If nothing that is left weighs a unit, all is kept.
func (s *scratch) xtc(w weigher, threshold float32) {
	kept := s.list()
	total := uint64(0)
	for _, c := range kept {
		total += units(w.exponent(c.logit))
	}
	if total == 0 {
		return
	}
	floor := log(float64(float64(threshold)*float64(total)) * unit)
	last, found := candidate{}, false
	for _, c := range kept {
		if w.exponent(c.logit) >= floor && (!found || last.before(c)) {
			last, found = c, true
		}
	}
	if found {
		s.kept = slices.DeleteFunc(kept, func(c candidate) bool { return c.before(last) })
	}
}

// topK appends the k first candidates of logits in r to dst, sorted. It keeps a heap with the last of them on top, which few
// logits of a long row beat.
func topK(dst []candidate, logits []float32, k int, r run) []candidate {
	h := dst
	for i, x := range logits {
		c := candidate{x, int32(i)}
		switch {
		case len(h) < k:
			if !r.has(c) {
				continue
			}
			h = append(h, c)
			for j := len(h) - 1; j > 0 && h[(j-1)/2].before(h[j]); j = (j - 1) / 2 {
				h[j], h[(j-1)/2] = h[(j-1)/2], h[j]
			}
		case c.before(h[0]) && r.has(c):
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
