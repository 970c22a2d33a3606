package check

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"memra/compute"
	"memra/gguf"
)

// The row counts that a row is computed among: alone, a few, around the borders of tiles, many.
var counts = []int{1, 2, 7, 64, 65}

const crowd = 500

// company are the checks of R1 and R2: a row's bits do not depend on which rows come with it, nor on how many.
func (c *checker) company() []one {
	var list []one
	for _, t := range c.formats() {
		list = append(list, one{fmt.Sprintf("a row in any company: matmul %v", t), func(c *checker) (string, error) {
			s := pick(c, 1, [2]int{72, 768}, [2]int{200, 1280})
			outputs, width := s[len(s)-1][0], s[len(s)-1][1]
			w, _, err := c.weight(t, outputs, width)
			if err != nil {
				return "", err
			}
			return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor { return ops.MatMul(x, w) })
		}})
	}
	list = append(list,
		one{"a row in any company: logits", (*checker).logitsAlike},
		one{"a row in any company: norms", (*checker).normsAlike},
		one{"a row in any company: gates", (*checker).gatesAlike},
		one{"a row in any company: heads turned", (*checker).turnsAlike})
	for _, kv := range kvFormats {
		name := "a row in any company: attention"
		if kv.format != compute.KVF16 {
			name += fmt.Sprintf(" over %v", kv.format)
		}
		list = append(list, one{name, func(c *checker) (string, error) { return c.attentionAlike(kv.format) }})
	}
	return append(list, one{"few rows and many are multiplied alike", (*checker).oneArithmetic})
}

// alike computes a crowd of rows, one of them NaN, and compares some with themselves in smaller company. The operations get the
// numbers of the rows.
func (c *checker) alike(width int, f func(ops compute.Ops, x compute.Tensor, rows []int) compute.Tensor) (string, error) {
	x := c.normal(crowd, width, 1)
	outcast := c.rng.IntN(crowd)
	for i := range x.row(outcast) {
		x.row(outcast)[i] = float32(math.NaN())
	}
	compute := func(rows []int) (matrix, error) {
		return c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return f(ops, in[0], rows) }, x.of(rows))
	}
	everyone := make([]int, crowd)
	for i := range everyone {
		everyone[i] = i
	}
	all, err := compute(everyone)
	if err != nil {
		return "", err
	}
	for _, n := range counts {
		rows := c.rng.Perm(crowd)[:n]
		got, err := compute(rows)
		if err != nil {
			return "", err
		}
		if d := differ(got.values, all.of(rows).values); d != "" {
			return "", fmt.Errorf("%d rows, compared with among %d: %s", n, crowd, d)
		}
	}
	return fmt.Sprintf("equal bits among %s and %d rows, beside NaN", strings.Trim(fmt.Sprint(counts), "[]"), crowd), nil
}

func (c *checker) logitsAlike() (string, error) {
	const width = 768
	w, _, err := c.weight(gguf.Q6_K, 100, width)
	if err != nil {
		return "", err
	}
	return c.alike(width, func(ops compute.Ops, x compute.Tensor, rows []int) compute.Tensor {
		b := new(compute.Batch)
		for range rows {
			b.Add(0, 0, -1, true)
		}
		return ops.Logits(b, x, w)
	})
}

// each runs several checks of one kind and gives the last one's figures.
func each(checks ...func() (string, error)) (detail string, err error) {
	for _, check := range checks {
		if detail, err = check(); err != nil {
			return "", err
		}
	}
	return detail, nil
}

func (c *checker) normsAlike() (string, error) {
	const width = 1280
	g, head := c.device.Vector(c.normal(1, width, 1).values), c.device.Vector(c.normal(1, width/10, 1).values)
	return each(func() (string, error) {
		return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor { return ops.Norm(x, g, eps) })
	}, func() (string, error) {
		return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor {
			_, n := ops.AddNorm(x, ops.Norm(x, g, eps), g, eps)
			return n
		})
	}, func() (string, error) {
		return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor {
			return ops.Columns(ops.Add(ops.Norm(x, head, eps), x, 0.3), 256, 512)
		})
	})
}

func (c *checker) gatesAlike() (string, error) {
	const width = 1536
	g := c.device.Vector(c.normal(1, width, 1).values)
	return each(func() (string, error) {
		return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor {
			return ops.SwiGLU(x, ops.Norm(x, g, eps))
		})
	}, func() (string, error) {
		return c.alike(width, func(ops compute.Ops, x compute.Tensor, _ []int) compute.Tensor {
			return ops.GeGLU(x, ops.Norm(x, g, eps))
		})
	})
}

func (c *checker) turnsAlike() (string, error) {
	const dim, width = 64, 640
	rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: dim})
	if err != nil {
		return "", err
	}
	gain := c.device.Vector(c.normal(1, dim, 1).values)
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	g := c.device.Vector(ones)
	return c.alike(width, func(ops compute.Ops, x compute.Tensor, rows []int) compute.Tensor {
		b := new(compute.Batch)
		for _, r := range rows {
			b.Add(0, 3*r, -1, false)
		}
		q, _ := ops.QKNormRope(b, x, ops.Norm(x, g, eps), compute.QK{HeadDim: dim, Rope: rope, QNorm: gain, KNorm: gain, Eps: eps})
		return q
	})
}

// attentionAlike compares positions of one sequence alone, in company, in any order, and however the sequence was cut into steps.
func (c *checker) attentionAlike(format compute.KVFormat) (string, error) {
	if !c.keeps(format) && format != compute.KVF16 {
		return "", skip("%s keeps no cache in %v", c.device.Name(), format)
	}
	for _, s := range pick(c, 1, [3]int{64, 700, 100}, [3]int{64, 1400, 0}, [3]int{128, 1400, 300}, [3]int{256, 1400, 0}, [3]int{512, 1400, 0}) {
		story := c.story(8, 2, s[0], s[1], s[2])
		t, err := c.tell(story, 512, format)
		if err != nil {
			return "", err
		}
		order := c.rng.Perm(story.length)[:min(crowd, story.length)]
		all, err := t.at(order...)
		if err != nil {
			return "", err
		}
		again, err := c.tell(story, 97, format)
		if err != nil {
			return "", err
		}
		for _, n := range counts {
			from := c.rng.IntN(len(order) - n + 1)
			for name, told := range map[string]*told{"": t, ", stored in other steps": again} {
				got, err := told.at(order[from : from+n]...)
				if err != nil {
					return "", err
				}
				if d := differ(got.values, all.values[from*all.width:][:n*all.width]); d != "" {
					return "", fmt.Errorf("heads of %d, window %d, %d rows%s: %s", s[0], s[2], n, name, d)
				}
			}
		}
		if err := errors.Join(t.memory.Close(), again.memory.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("equal bits among %s and %d rows, in any order, stored in steps of 512 and of 97", strings.Trim(fmt.Sprint(counts), "[]"), crowd), nil
}

// oneArithmetic compares the products of many rows, taken at once, with those of the same rows taken a few at a time: the kernels
// for the two are others on some devices, and must continue each other's chains of additions bit for bit. Inputs of badly mixed
// magnitudes show orders of additions that well-behaved ones hide. On an NVIDIA GPU with wgmma this is the fact that wgmma and
// mma agree.
func (c *checker) oneArithmetic() (string, error) {
	many, outputs := 600, 512
	if c.Quick {
		many, outputs = 200, 128
	}
	names, compared := map[string]bool{}, 0
	for _, width := range pick(c, 1, 1536, 576, 4096) {
		for _, t := range pick(c, 2, gguf.Q8_0, gguf.F16, gguf.Q4_K, gguf.BF16) {
			if values, _ := t.Block(); width%values != 0 {
				t = gguf.Q4_0
			}
			w, _, err := c.weight(t, outputs, width)
			if err != nil {
				return "", err
			}
			x := c.normal(many, width, 1)
			for i := range x.values {
				x.values[i] *= float32(math.Ldexp(1, c.rng.IntN(16)-8))
			}
			multiply := func(rows matrix) (matrix, error) {
				y, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor { return ops.MatMul(in[0], w) }, rows)
				c.kernels(names)
				return y, err
			}
			all, err := multiply(x)
			if err != nil {
				return "", err
			}
			for _, few := range []int{1, 8, 30} {
				for from := 0; from < many; from += many / 4 {
					got, err := multiply(matrix{width, x.values[from*width:][:few*width]})
					if err != nil {
						return "", err
					}
					if d := differ(got.values, all.values[from*outputs:][:few*outputs]); d != "" {
						return "", fmt.Errorf("%v, %d values, rows %d to %d of %d: %s", t, width, from, from+few-1, many, d)
					}
					compared += len(got.values)
				}
			}
		}
	}
	detail := fmt.Sprintf("0 of %d products differ", compared)
	if len(names) > 0 {
		detail += "; kernels " + strings.Join(sorted(names), ", ")
	}
	return detail, nil
}

// kernels notes which kernels of matrix products the last step had, if the device says.
func (c *checker) kernels(names map[string]bool) {
	if d, ok := c.device.(interface{ KernelNames() []string }); ok {
		for _, n := range d.KernelNames() {
			if strings.HasPrefix(n, "matmul") {
				names[n] = true
			}
		}
	}
}
