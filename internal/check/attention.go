package check

import (
	"errors"
	"fmt"
	"math"

	"memra/compute"
)

// story is the queries, keys and values of one sequence, and where its pages lie.
type story struct {
	heads, kvHeads, dim, length, window int
	cap                                 float32 // of scores; 0: none
	q, k, v                             matrix  // [length][heads*dim], [length][kvHeads*dim]
	pages                               []int32
}

func (c *checker) story(heads, kvHeads, dim, length, window int) *story {
	s := &story{heads: heads, kvHeads: kvHeads, dim: dim, length: length, window: window,
		q: c.normal(length, heads*dim, 1), k: c.normal(length, kvHeads*dim, 1), v: c.normal(length, kvHeads*dim, 1)}
	for _, p := range c.rng.Perm((length + compute.Page - 1) / compute.Page) {
		s.pages = append(s.pages, int32(p)+1) // page 0 is nobody's
	}
	return s
}

// want is the attention of a position over keys and values as f16.
func (s *story) want(p int) (out []float64) {
	from := 0
	if s.window > 0 {
		from = max(0, p+1-s.window)
	}
	for h := range s.heads {
		kv := h / (s.heads / s.kvHeads) * s.dim
		q := s.q.row(p)[h*s.dim:][:s.dim]
		o, sum, top := make([]float64, s.dim), 0.0, math.Inf(-1)
		var scores []float64
		for t := from; t <= p; t++ {
			var score float64
			for i, v := range s.k.row(t)[kv:][:s.dim] {
				score += float64(q[i]) * half(v)
			}
			score /= math.Sqrt(float64(s.dim))
			if s.cap > 0 {
				score = float64(s.cap) * math.Tanh(score/float64(s.cap))
			}
			scores, top = append(scores, score), max(top, score)
		}
		for i, score := range scores {
			e := math.Exp(score - top)
			sum += e
			for j, v := range s.v.row(from + i)[kv:][:s.dim] {
				o[j] += e * half(v)
			}
		}
		for _, v := range o {
			out = append(out, v/sum)
		}
	}
	return out
}

// told is a story whose keys and values a device has stored.
type told struct {
	*story
	c      *checker
	memory compute.KVMemory
	kv     compute.KV
}

// tell stores a story in steps of so many rows, in a layer that is not the first, in a sequence that is not the first.
func (c *checker) tell(s *story, chunk int, format compute.KVFormat) (*told, error) {
	m, err := c.device.NewKV(compute.KVShape{Layers: 2, Heads: s.kvHeads, HeadDim: s.dim, Format: format}, len(s.pages)+2)
	if err != nil {
		return nil, err
	}
	t := &told{s, c, m, compute.KV{Memory: m, Layer: 1, Tables: [][]int32{nil, s.pages}}}
	for from := 0; from < s.length; from += chunk {
		b, rows := new(compute.Batch), []int{}
		for p := from; p < min(from+chunk, s.length); p++ {
			b.Add(0, p, 1, false)
			rows = append(rows, p)
		}
		_, err := c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
			ops.AppendKV(b, t.kv, in[0], in[1])
			return compute.Tensor{}
		}, s.k.of(rows), s.v.of(rows))
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return t, nil
}

// at is the attention of positions, in one step; a negative one is a row without a sequence.
func (t *told) at(positions ...int) (matrix, error) {
	b, rows := new(compute.Batch), []int{}
	for _, p := range positions {
		slot := 1
		if p < 0 {
			slot, p = -1, 0
		}
		b.Add(0, p, slot, false)
		rows = append(rows, p)
	}
	return t.c.run(func(ops compute.Ops, in []compute.Tensor) compute.Tensor {
		return ops.Attention(b, in[0], t.kv, compute.Attn{Window: t.window, Cap: t.cap})
	}, t.q.of(rows))
}

// kvFormats are the formats of the KV cache, and what each costs beside f16: a value of 8 bits is wrong by 0.0055 of it (2.4/127 over
// the root of 12, see classes), of an e4m3 by 0.026 (2^-4 over the root of 3, from half of that for the largest mantissas); scores and
// values pay it both, and doubling leaves room.
var kvFormats = []struct {
	format compute.KVFormat
	cost   float64
}{{compute.KVF16, 0}, {compute.KVQ8, 0.02}, {compute.KVE4M3, 0.09}}

// keeps reports whether the device keeps a KV cache in a format.
func (c *checker) keeps(format compute.KVFormat) bool {
	m, err := c.device.NewKV(compute.KVShape{Layers: 1, Heads: 1, HeadDim: 64, Format: format}, 1)
	return err == nil && m.Close() == nil
}

func (c *checker) attention(format compute.KVFormat, cost float64) (string, error) {
	if !c.keeps(format) && format != compute.KVF16 {
		return "", skip("%s keeps no cache in %v", c.device.Name(), format)
	}
	w := worst{limit: c.limit.attention + cost}
	for _, s := range pick(c, 2, [6]int{6, 2, 64, 200, 0, 0}, [6]int{4, 1, 128, 150, 70, 3}, [6]int{9, 3, 64, 1500, 0, 6}, [6]int{8, 2, 128, 1200, 0, 0},
		[6]int{4, 1, 256, 1200, 512, 0}, [6]int{8, 1, 512, 1200, 0, 0}, [6]int{4, 4, 80, 130, 0, 0}, [6]int{2, 1, 96, 130, 64, 0}, [6]int{2, 2, 192, 130, 0, 0}, [6]int{20, 1, 64, 300, 0, 2}, [6]int{1, 1, 64, 9300, 0, 0}) {
		story := c.story(s[0], s[1], s[2], s[3], s[4])
		story.cap = float32(s[5]) / 2
		t, err := c.tell(story, 128, format)
		if err != nil {
			return "", err
		}
		positions := []int{0, 1, 63, 64, 65, 127, t.length / 2, t.length - 1}
		got, err := t.at(append([]int{-1}, positions...)...)
		if err != nil {
			return "", err
		}
		for i, p := range positions {
			w.add(fmt.Sprintf("%d heads of %d over %d, %d positions, window %d, cap %v, position %d", s[0], s[2], s[1], s[3], s[4], t.cap, p), got.row(i+1), t.want(p))
		}
		for _, v := range got.row(0) {
			if v != 0 {
				return "", fmt.Errorf("a row without a sequence attends to %v, want 0", v)
			}
		}
		if err := t.memory.Close(); err != nil {
			return "", err
		}
	}
	w.shapes /= 8
	return w.verdict()
}

// copies checks that a copied page serves like its original.
func (c *checker) copies() (string, error) {
	t, err := c.tell(c.story(4, 2, 64, 100, 0), 100, compute.KVF16)
	if err != nil {
		return "", err
	}
	defer t.memory.Close()
	want, err := t.at(99, 70)
	if err != nil {
		return "", err
	}
	t.memory.Copy(len(t.pages)+1, int(t.pages[1]))
	t.kv.Tables = [][]int32{nil, {t.pages[0], int32(len(t.pages) + 1)}}
	got, err := t.at(99, 70)
	if err != nil {
		return "", err
	}
	if d := differ(got.values, want.values); d != "" {
		return "", errors.New(d)
	}
	return "equal bits", nil
}
