package cpu

import (
	"math"

	"memra/compute"
)

// routes are rows' experts, by falling key, and their weights: [rows][chosen].
type routes struct {
	experts []int32
	weights []float32
}

// Router: a matmul, then chooser.choose for each row.
func (s *step) Router(x compute.Tensor, w compute.Weight, o compute.Routing) compute.Routes {
	l, n := s.MatMul(x, w), x.Rows*o.Chosen
	r := &routes{s.at.indices.take(n, 1<<12), s.at.rows.take(n, 1<<16)}
	c := newChooser(o)
	work := s.at.rows.take(x.Rows*w.Rows, 1<<16) // keys
	s.eachRow(x.Rows, func(i int) {
		c.choose(r.experts[i*o.Chosen:][:o.Chosen], r.weights[i*o.Chosen:][:o.Chosen], mem(l).row(i, w.Rows), work[i*w.Rows:][:w.Rows])
	})
	return compute.Routes{Rows: x.Rows, Chosen: o.Chosen, Mem: r}
}

// chooser is a Routing with its vectors at hand; nil where there is none.
type chooser struct {
	compute.Routing
	choiceBias, scales []float32
}

func newChooser(o compute.Routing) *chooser {
	c := &chooser{Routing: o}
	for _, v := range []struct {
		to   *[]float32
		from compute.Vector
	}{{&c.choiceBias, o.ChoiceBias}, {&c.scales, o.Scales}} {
		if !v.from.IsZero() {
			*v.to = values(v.from)
		}
	}
	return c
}

// choose fills a row's experts and weights from its products l, which it changes. key is room for as many.
func (c *chooser) choose(experts []int32, weights, l, key []float32) {
	copy(key, l)
	byScore := c.choiceBias != nil || c.Groups > 0
	if byScore || c.Score == compute.Sigmoid || !c.Normalise {
		c.scores(l)
	}
	if byScore {
		copy(key, l)
		if c.choiceBias != nil {
			addGo(key, key, c.choiceBias)
		}
	}
	for _, k := range key {
		if k != k {
			for j := range experts {
				experts[j], weights[j] = int32(j), k
			}
			return
		}
	}
	if c.Groups > 0 {
		c.dropGroups(key)
	}
	for j := range experts {
		e := best(key)
		if e < 0 { // nothing is left: a fault of the model's numbers
			experts[j], weights[j] = 0, taken
			continue
		}
		experts[j], weights[j] = int32(e), l[e]
		key[e] = taken
	}
	if c.Normalise {
		c.normalise(weights, !byScore && c.Score == compute.Softmax)
	}
	for j, e := range experts {
		if c.Scale != 0 {
			weights[j] *= c.Scale
		}
		if c.scales != nil {
			weights[j] *= c.scales[e]
		}
	}
}

// taken is the key of an expert that cannot be chosen (any more): below minus infinity, in best's order.
var taken = float32(math.NaN())

// best is the index of the largest key, of equal ones the lowest.
func best(key []float32) int {
	b := -1
	for e, k := range key {
		if k == k && (b < 0 || k > key[b]) {
			b = e
		}
	}
	return b
}

// scores makes scores of logits.
//
//	sigmoid   1 / (1 + exp(-l))
//	softmax   exp(l - max) / sum, the sum in 32 partial sums, e modulo 32, each ascending, folded 16, 8, 4, 2, 1
func (c *chooser) scores(l []float32) {
	if c.Score == compute.Sigmoid {
		for e, v := range l {
			l[e] = 1 / (1 + exp(-v))
		}
		return
	}
	peak := l[0]
	for _, v := range l {
		peak = max(peak, v)
	}
	var part [32]float32
	for e, v := range l {
		l[e] = exp(v - peak)
		part[e%32] += l[e]
	}
	for step := 16; step > 0; step /= 2 {
		for i := range step {
			part[i] += part[i+step]
		}
	}
	for e := range l {
		l[e] /= part[0]
	}
}

// normalise makes weights add to one; of logits it first makes exponentials, less the first, which is the largest.
func (c *chooser) normalise(weights []float32, logits bool) {
	var sum float32
	peak := weights[0]
	for j, w := range weights {
		if logits {
			weights[j] = exp(w - peak)
		}
		sum += weights[j]
	}
	if c.Score == compute.Sigmoid {
		sum = max(sum, 1e-20)
	}
	for j := range weights {
		weights[j] /= sum
	}
}

// dropGroups takes the experts of all groups but the best away.
func (c *chooser) dropGroups(key []float32) {
	size := len(key) / c.Groups
	sums := make([]float32, c.Groups)
	for g := range sums {
		group := key[g*size:][:size]
		first := best(group) // no key is NaN
		sums[g] = group[first]
		second := float32(math.Inf(-1))
		for e, k := range group {
			if e != first {
				second = max(second, k)
			}
		}
		if size > 1 {
			sums[g] += second
		}
	}
	kept := make([]bool, c.Groups)
	for range c.KeptGroups {
		if g := best(sums); g >= 0 {
			kept[g], sums[g] = true, taken
		}
	}
	for e := range key {
		if !kept[e/size] {
			key[e] = taken
		}
	}
}
