package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memra/compute"
	"memra/gguf"
)

// experts compares a router and its experts with float64: rows of which a close decision could go either way are left out, for a class
// rounds what it decides by.
func (c *checker) experts(t gguf.Type) (string, error) {
	const count, chosen, width, hidden, clear = 16, 4, 256, 512, 0.02
	w := worst{limit: 3 * c.limit.quantised} // three matmuls
	if isFloat(t) {
		w.limit = 3*c.limit.float + c.limit.gate
	}
	bank := func(rows, width int) (compute.Weight, matrix, error) {
		values := c.normal(count*rows, width, 1/math.Sqrt(float64(width)))
		data := encode(t, values.values)
		weight, err := c.device.PackExperts(t, count, rows, width, func(e int) ([]byte, func(), error) {
			size := len(data) / count
			return data[e*size:][:size], nil, nil
		})
		return weight, matrix{width, decode(t, data, count*rows*width)}, err
	}
	gate, gates, err := bank(hidden, width)
	if err != nil {
		return "", err
	}
	up, ups, err := bank(hidden, width)
	if err != nil {
		return "", err
	}
	down, downs, err := bank(width, hidden)
	if err != nil {
		return "", err
	}
	router, routers, err := c.weight(gguf.BF16, count, width)
	if err != nil {
		return "", err
	}
	for _, rows := range pick(c, 2, 3, 40, 1, 300) {
		x := c.normal(rows, width, 1)
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
			return ops.Experts(in[0], ops.Router(in[0], router, compute.Routing{Chosen: chosen, Normalise: true}), compute.Experts{Gate: gate, Up: up, Down: down}, compute.Shared{})
		}, x)
		if err != nil {
			return "", err
		}
		var seen []float32
		var want []float64
		logits := product(x, routers)
		for r := range rows {
			l := logits[r*count:][:count]
			order := make([]int, count)
			for e := range order {
				order[e] = e
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(l[b], l[a]) })
			if l[order[chosen-1]]-l[order[chosen]] < clear {
				continue
			}
			seen = append(seen, got.row(r)...)
			want = append(want, mixed(matrix{width, x.row(r)}, gates, ups, downs, l, order[:chosen], count)...)
		}
		if len(want) > 0 {
			w.add(fmt.Sprintf("%d rows", rows), seen, want)
		}
	}
	return w.verdict()
}

// mixed is the experts of one row, weighed by the softmax over their logits.
func mixed(x, gates, ups, downs matrix, logits []float64, experts []int, count int) []float64 {
	one := func(m matrix, e int) matrix {
		size := len(m.values) / count
		return matrix{m.width, m.values[e*size:][:size]}
	}
	y, total := make([]float64, x.width), 0.0
	for _, e := range experts {
		total += math.Exp(logits[e])
	}
	for _, e := range experts {
		g, u := product(x, one(gates, e)), product(x, one(ups, e))
		d := one(downs, e)
		for o := range y {
			var sum float64
			for i, v := range d.row(o) {
				sum += float64(v) * g[i] * sigmoid(g[i]) * u[i]
			}
			y[o] += math.Exp(logits[e]) / total * sum
		}
	}
	return y
}
