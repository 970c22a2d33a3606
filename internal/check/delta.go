package check

import (
	"errors"
	"fmt"
	"math"

	"memra/compute"
)

// sigmoid is 1 / (1 + e^-x).
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// net is a delta-net's layer and the inputs of a sequence.
type net struct {
	compute.DeltaShape
	grouped        bool
	w, a, dt       matrix
	x, beta, alpha matrix
}

func (c *checker) newNet(shape compute.DeltaShape, grouped bool, rows int) *net {
	n := &net{DeltaShape: shape, grouped: grouped, w: c.normal(shape.Taps, shape.Width(), 0.5), a: c.normal(1, shape.ValueHeads, 1), dt: c.normal(1, shape.ValueHeads, 1),
		x: c.normal(rows, shape.Width(), 1), beta: c.normal(rows, shape.ValueHeads, 1), alpha: c.normal(rows, shape.ValueHeads, 2)}
	n.Format = c.device.DeltaFormat()
	for i, v := range n.a.values {
		n.a.values[i] = -float32(math.Exp(float64(v) - 1))
	}
	return n
}

// convolved is the convolution in float64.
func (n *net) convolved() (want []float64) {
	for r := range n.x.rows() {
		for c := range n.x.width {
			var sum float64
			for j := range n.Taps {
				if at := r - n.Taps + 1 + j; at >= 0 {
					sum += float64(n.w.row(j)[c]) * float64(n.x.row(at)[c])
				}
			}
			want = append(want, sum*sigmoid(sum))
		}
	}
	return want
}

// recurrent is the rule as its paper has it, in float64: the state changes at every row.
func (n *net) recurrent() []float64 {
	y, dim, width := n.convolved(), n.HeadDim, n.Width()
	want := make([]float64, n.x.rows()*n.ValueHeads*dim)
	for h := range n.ValueHeads {
		key, state := h%n.KeyHeads, make([]float64, dim*dim)
		if n.grouped {
			key = h / (n.ValueHeads / n.KeyHeads)
		}
		for r := range n.x.rows() {
			head := func(i int) []float64 { return y[r*width+i*dim:][:dim] }
			q, k, v := unit(head(key)), unit(head(n.KeyHeads+key)), head(2*n.KeyHeads+h)
			b := sigmoid(float64(n.beta.row(r)[h]))
			decay := math.Exp(float64(n.a.values[h]) * math.Log1p(math.Exp(float64(n.alpha.row(r)[h]+n.dt.values[h]))))
			for c := range dim {
				var read, out float64
				for i := range dim {
					state[i*dim+c] *= decay
					read += state[i*dim+c] * k[i]
				}
				for i := range dim {
					state[i*dim+c] += k[i] * b * (v[c] - read)
					out += state[i*dim+c] * q[i]
				}
				want[(r*n.ValueHeads+h)*dim+c] = out / math.Sqrt(float64(dim))
			}
		}
	}
	return want
}

// unit is x at a length of one.
func unit(x []float64) []float64 {
	sum, y := eps, make([]float64, len(x))
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		y[i] = v / math.Sqrt(sum)
	}
	return y
}

// computed is the rule in steps of so many rows, beside others without a sequence, and the convolution.
func (n *net) computed(c *checker, chunk, idle int) (conv, out matrix, err error) {
	rows := n.x.rows()
	memory, err := c.device.NewDelta(n.DeltaShape, 2+rows/compute.Page)
	if err != nil {
		return conv, out, err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	var table []int32
	for i := range 1 + rows/compute.Page {
		table = append(table, int32(1+i))
	}
	d := compute.Delta{Memory: memory, Layer: n.Layers - 1, Tables: [][]int32{nil, table}}
	w, gates := c.device.Vector(n.w.values), compute.DeltaGates{A: c.device.Vector(n.a.values), DT: c.device.Vector(n.dt.values), Eps: eps, Grouped: n.grouped}
	for from := 0; from < rows; from += chunk {
		b, take := new(compute.Batch), []int(nil)
		for r := from; r < min(rows, from+chunk); r++ {
			b.Add(0, r, 1, false)
			take = append(take, r)
		}
		own := len(take)
		for range idle {
			b.Add(0, 0, -1, false)
			take = append(take, 0)
		}
		for i, of := range []*matrix{&conv, &out} {
			got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
				y := ops.CausalConv(b, d, in[0], w)
				if i == 0 {
					return y
				}
				return ops.GatedDelta(b, d, y, in[1], in[2], gates)
			}, n.x.of(take), n.beta.of(take), n.alpha.of(take))
			if err != nil {
				return conv, out, err
			}
			of.width, of.values = got.width, append(of.values, got.values[:own*got.width]...)
		}
	}
	return conv, out, nil
}

// delta checks the gated delta rule and its convolution against the recurrence, and that steps of other sizes give the same bits.
func (c *checker) delta() (string, error) {
	w := worst{limit: c.limit.delta}
	rows := 600
	if c.Quick {
		rows = 150
	}
	for _, s := range pick(c, 2, net{DeltaShape: compute.DeltaShape{Layers: 2, KeyHeads: 1, ValueHeads: 2, HeadDim: 128, Taps: 4}},
		net{DeltaShape: compute.DeltaShape{Layers: 1, KeyHeads: 2, ValueHeads: 4, HeadDim: 16, Taps: 4}, grouped: true},
		net{DeltaShape: compute.DeltaShape{Layers: 1, KeyHeads: 2, ValueHeads: 2, HeadDim: 64, Taps: 3}}) {
		n := c.newNet(s.DeltaShape, s.grouped, rows)
		conv, out, err := n.computed(c, rows, 0)
		if err != nil {
			return "", err
		}
		what := fmt.Sprintf("%d value heads of %d", n.ValueHeads, n.HeadDim)
		w.add(what+", convolution", conv.values, n.convolved())
		w.add(what, out.values, n.recurrent())
		for _, step := range pick(c, 2, struct{ rows, idle int }{7, 0}, struct{ rows, idle int }{7, 12}, struct{ rows, idle int }{1, 0}, struct{ rows, idle int }{100, 0}) {
			_, other, err := n.computed(c, step.rows, step.idle)
			if err != nil {
				return "", err
			}
			if d := differ(other.values, out.values); d != "" {
				return "", fmt.Errorf("%s in steps of %d rows beside %d without a sequence: %s", what, step.rows, step.idle, d)
			}
		}
	}
	return w.verdict()
}

// gatedNorm checks a norm of groups that is gated, and the gates of attention's queries.
func (c *checker) gatedNorm() (string, error) {
	w := worst{limit: c.limit.gate}
	for _, dim := range pick(c, 2, 128, 16, 256) {
		x, z, gain := c.normal(5, 6*dim, 1), c.normal(5, 6*dim, 1), c.normal(1, dim, 1).values
		g := c.device.Vector(gain)
		want := normed(matrix{dim, x.values}, gain)
		for i, v := range z.values {
			want[i] *= float64(v) * sigmoid(float64(v))
		}
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.GatedNorm(in[0], in[1], g, eps) }, x, z)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("groups of %d", dim), got.values, want)
	}
	return w.verdict()
}
