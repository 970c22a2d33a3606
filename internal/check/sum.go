package check

import (
	"errors"
	"fmt"
	"math"

	"memra/compute"
)

// normOfHeads checks a norm whose gain is a part of a row.
func (c *checker) normOfHeads() (string, error) {
	w := worst{limit: c.limit.norm}
	for _, dim := range pick(c, 2, 64, 256, 16, 80, 512) {
		x, gain := c.normal(5, 6*dim, 1), c.normal(1, dim, 1).values
		g := c.device.Vector(gain)
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Norm(in[0], g, eps) }, x)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("heads of %d", dim), got.values, normed(matrix{dim, x.values}, gain))
	}
	return w.verdict()
}

func (c *checker) add() (string, error) {
	w := worst{limit: c.limit.sum}
	for _, width := range c.widths() {
		const scale = 0.70710678
		x, y := c.normal(5, width, 1), c.normal(5, width, 0.3)
		var want []float64
		for i, v := range x.values {
			want = append(want, scale*(float64(v)+float64(y.values[i])))
		}
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Add(in[0], in[1], scale) }, x, y)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("width %d", width), got.values, want)
	}
	return w.verdict()
}

func (c *checker) columns() (string, error) {
	const width, from, n = 640, 128, 256
	x := c.normal(70, width, 1)
	got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Columns(in[0], from, n) }, x)
	if err != nil {
		return "", err
	}
	want := matrix{width: n}
	for r := range x.rows() {
		want.values = append(want.values, x.row(r)[from:][:n]...)
	}
	if d := differ(got.values, want.values); d != "" {
		return "", errors.New(d)
	}
	return "equal bits", nil
}

func (c *checker) scale() (string, error) {
	w := worst{limit: c.limit.scale}
	for _, o := range pick(c, 2, [2]float32{0.25, 3}, [2]float32{0.0123, 0}, [2]float32{1, 30}) {
		x := c.normal(5, 1544, 20)
		var want []float64
		for _, v := range x.values {
			y := float64(v) * float64(o[0])
			if o[1] > 0 {
				y = float64(o[1]) * math.Tanh(y/float64(o[1]))
			}
			want = append(want, y)
		}
		got, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.Scale(in[0], o[0], o[1]) }, x)
		if err != nil {
			return "", err
		}
		w.add(fmt.Sprintf("scale %v, cap %v", o[0], o[1]), got.values, want)
	}
	return w.verdict()
}

// bias checks that a matmul adds a weight's bias, rounding once more.
func (c *checker) bias() (string, error) {
	const n, k = 200, 256
	x, bias := c.normal(20, k, 1), c.normal(1, n, 1).values
	weight, _, err := c.weight(pick(c, 1, c.formats()...)[0], n, k)
	if err != nil {
		return "", err
	}
	product := func() (matrix, error) {
		return c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.MatMul(in[0], weight) }, x)
	}
	want, err := product()
	if err != nil {
		return "", err
	}
	for i := range want.values {
		want.values[i] += bias[i%n]
	}
	weight.Bias = c.device.Vector(bias)
	got, err := product()
	if err != nil {
		return "", err
	}
	if d := differ(got.values, want.values); d != "" {
		return "", errors.New(d)
	}
	return "equal bits", nil
}
