package check

import (
	"fmt"
	"math"

	"memra/compute"
	"memra/gguf"
)

// operations are the checks of single operations against float64.
func (c *checker) operations() []one {
	var list []one
	for _, t := range c.formats() {
		list = append(list, one{fmt.Sprintf("embed %v", t), func(c *checker) (string, error) { return c.embed(t) }})
	}
	for _, t := range c.formats() {
		list = append(list, one{fmt.Sprintf("matmul %v", t), func(c *checker) (string, error) { return c.matMul(t) }})
	}
	list = append(list, one{"logits", (*checker).logits}, one{"add and norm", (*checker).addNorm}, one{"norm", (*checker).norm},
		one{"norm of heads", (*checker).normOfHeads}, one{"sum", (*checker).add}, one{"columns", (*checker).columns},
		one{"scale and cap", (*checker).scale}, one{"bias", (*checker).bias},
		one{"swiglu", func(c *checker) (string, error) { return c.gate(true) }},
		one{"geglu", func(c *checker) (string, error) { return c.gate(false) }},
		one{"norm and rotation of heads", (*checker).turn})
	for _, kv := range kvFormats {
		name := "attention"
		if kv.format != compute.KVF16 {
			name += fmt.Sprintf(" over %v", kv.format)
		}
		list = append(list, one{name, func(c *checker) (string, error) { return c.attention(kv.format, kv.cost) }})
	}
	for _, t := range pick(c, 2, gguf.Q4_K, gguf.Q8_0, gguf.Q6_K, gguf.Q4_0, gguf.Q5_0, gguf.Q5_K, gguf.BF16, gguf.MXFP4) {
		list = append(list, one{fmt.Sprintf("experts %v", t), func(c *checker) (string, error) { return c.experts(t) }})
	}
	list = append(list, one{"gated delta rule", (*checker).delta}, one{"gated norm", (*checker).gatedNorm})
	return append(list, one{"copies of pages", (*checker).copies}, one{"draws", (*checker).draws})
}

// pick is all of a list, or its first few where checks are quick.
func pick[T any](c *checker, quick int, list ...T) []T {
	if c.Quick {
		return list[:quick]
	}
	return list
}

func (c *checker) embed(t gguf.Type) (string, error) {
	w := worst{limit: c.limit.embed}
	for _, width := range pick(c, 1, 768, 256, 4096) {
		const vocab, scale = 130, 3.5
		table, values, err := c.weight(t, vocab, width)
		if err != nil {
			return "", err
		}
		b := new(compute.Batch)
		var want []float64
		for i, token := range []int{0, 129, 63, 64, c.rng.IntN(vocab), c.rng.IntN(vocab)} {
			b.Add(int32(token), i, -1, false)
			for _, v := range values.row(token) {
				want = append(want, float64(v)*scale)
			}
		}
		got, err := c.run(func(ops compute.Ops, _ []compute.Tensor) compute.Tensor { return ops.Embed(b, table, scale) })
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("width %d", width), got.values, want)
	}
	return w.verdict()
}

// product is x·wᵀ.
func product(x, w matrix) []float64 {
	var y []float64
	for r := range x.rows() {
		in := x.row(r)
		for o := range w.rows() {
			var sum float64
			for i, v := range w.row(o) {
				sum += float64(v) * float64(in[i])
			}
			y = append(y, sum)
		}
	}
	return y
}

func (c *checker) matMul(t gguf.Type) (string, error) {
	w := worst{limit: c.limit.quantised}
	if isFloat(t) {
		w.limit = c.limit.float
	}
	for _, s := range pick(c, 2, [3]int{100, 768, 3}, [3]int{64, 256, 20}, [3]int{200, 1280, 40}, [3]int{330, 4096, 70}, [3]int{70, 512, 300}) {
		weight, values, err := c.weight(t, s[0], s[1])
		if err != nil {
			return "", err
		}
		x := c.normal(s[2], s[1], 1)
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.MatMul(in[0], weight) }, x)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("%d outputs, %d values, %d rows", s[0], s[1], s[2]), got.values, product(x, values))
	}
	return w.verdict()
}

func (c *checker) logits() (string, error) {
	w := worst{limit: c.limit.logits}
	for _, t := range pick(c, 2, gguf.Q8_0, gguf.Q6_K, gguf.F16, gguf.Q4_0, gguf.BF16) {
		weight, values, err := c.weight(t, 300, 768)
		if err != nil {
			return "", err
		}
		x, b := c.normal(70, 768, 1), new(compute.Batch)
		for r := range x.rows() {
			b.Add(0, r, -1, false)
		}
		b.Logits = []int32{69, 3, 40, int32(c.rng.IntN(70))}
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Logits(b, in[0], weight) }, x)
		if err != nil {
			return "", err
		}
		asked := matrix{width: x.width}
		for _, r := range b.Logits {
			asked.values = append(asked.values, x.row(int(r))...)
		}
		w.add(t.String(), got.values, product(asked, values))
	}
	return w.verdict()
}

const eps = 1e-6

// normed is rows over their root mean square, times a gain.
func normed(x matrix, gain []float32) (want []float64) {
	for r := range x.rows() {
		var squares float64
		for _, v := range x.row(r) {
			squares += float64(v) * float64(v)
		}
		for i, v := range x.row(r) {
			want = append(want, float64(gain[i])*float64(v)/math.Sqrt(squares/float64(x.width)+eps))
		}
	}
	return want
}

// widths of the residual stream: of real models, and awkward ones.
func (c *checker) widths() []int { return pick(c, 2, 576, 128, 640, 32, 2048, 3840, 4096, 5376) }

func (c *checker) addNorm() (string, error) {
	sums, w := worst{limit: c.limit.sum}, worst{limit: c.limit.addNorm}
	for _, width := range c.widths() {
		x, y, gain := c.normal(5, width, 1), c.normal(5, width, 0.3), c.normal(1, width, 1).values
		g := c.device.Vector(gain)
		added := matrix{width: width}
		var sum []float64
		for i, v := range x.values {
			added.values = append(added.values, v+y.values[i])
			sum = append(sum, float64(v)+float64(y.values[i]))
		}
		for _, first := range []bool{true, false} {
			got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
				s, n := ops.AddNorm(in[0], in[1], g, eps)
				if first {
					return s
				}
				return n
			}, x, y)
			if err != nil {
				return "", err
			}
			if first {
				sums.add(fmt.Sprintf("sum, width %d", width), got.values, sum)
			} else {
				w.add(fmt.Sprintf("width %d", width), got.values, normed(added, gain))
			}
		}
	}
	if _, err := sums.verdict(); err != nil {
		return "", err
	}
	return w.verdict()
}

func (c *checker) norm() (string, error) {
	w := worst{limit: c.limit.norm}
	for _, width := range c.widths() {
		x, gain := c.normal(5, width, 1), c.normal(1, width, 1).values
		g := c.device.Vector(gain)
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Norm(in[0], g, eps) }, x)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("width %d", width), got.values, normed(x, gain))
	}
	return w.verdict()
}

func (c *checker) gate(silu bool) (string, error) {
	w := worst{limit: c.limit.gate}
	for _, width := range c.widths() {
		g, u := c.normal(9, width, 3), c.normal(9, width, 2)
		g.values[0], g.values[1], g.values[2] = -100, 50, 0
		var want []float64
		for i, v := range g.values {
			x, act := float64(v), 0.0
			if silu {
				act = x / (1 + math.Exp(-x))
			} else {
				act = x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
			}
			want = append(want, act*float64(u.values[i]))
		}
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
			if silu {
				return ops.SwiGLU(in[0], in[1])
			}
			return ops.GeGLU(in[0], in[1])
		}, g, u)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("width %d", width), got.values, want)
	}
	return w.verdict()
}

func (c *checker) turn() (string, error) {
	w := worst{limit: c.limit.turn}
	for _, dim := range pick(c, 2, 64, 128, 32, 80, 96, 192, 256, 512) {
		for variant := range 4 {
			neighbour, normalised := variant&1 != 0, variant&2 != 0
			const heads, kvHeads = 9, 3
			rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: dim / 2, Neighbour: neighbour})
			if err != nil {
				return "", err
			}
			b := new(compute.Batch)
			for _, p := range []int{0, c.rng.IntN(8000), 63, 64, 4095} {
				b.Add(0, p, -1, false)
			}
			q, k, gain := c.normal(5, heads*dim, 1), c.normal(5, kvHeads*dim, 1), c.normal(1, dim, 1).values
			o := compute.QK{HeadDim: dim, Rope: rope, Eps: eps}
			if normalised {
				o.QNorm = c.device.Vector(gain)
				o.KNorm = o.QNorm
			}
			for _, keys := range []bool{false, true} {
				got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
					q, k := ops.QKNormRope(b, in[0], in[1], o)
					if keys {
						return k
					}
					return q
				}, q, k)
				if err != nil {
					return "", err
				}
				of := q
				if keys {
					of = k
				}
				w.add(fmt.Sprintf("heads of %d, neighbours %v, normalised %v, keys %v", dim, neighbour, normalised, keys), got.values,
					turned(of, b.Positions, rope, gain, dim, normalised))
			}
		}
	}
	return w.verdict()
}

// turned is every head normalised, if so asked, and turned.
func turned(x matrix, positions []int32, rope *compute.Rope, gain []float32, dim int, normalised bool) (want []float64) {
	for r := range x.rows() {
		for h := range x.width / dim {
			head := matrix{dim, x.row(r)[h*dim:][:dim]}
			var v []float64
			if normalised {
				v = normed(head, gain)
			} else {
				for _, f := range head.values {
					v = append(v, float64(f))
				}
			}
			for j, freq := range rope.Freq {
				a, b := j, j+rope.Dims/2
				if rope.Neighbour {
					a, b = 2*j, 2*j+1
				}
				sin, cos := math.Sincos(float64(positions[r]) * freq)
				v[a], v[b] = v[a]*cos-v[b]*sin, v[a]*sin+v[b]*cos
			}
			want = append(want, v...)
		}
	}
	return want
}
