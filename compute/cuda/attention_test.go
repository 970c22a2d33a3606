package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
)

func packF32(t testing.TB, c *cpu.Device, v []float32, width int) compute.Weight {
	t.Helper()
	data := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
	}
	w, err := c.Pack(gguf.F32, len(v)/width, width, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// attention is one sequence of keys, values and queries, position by position.
type attention struct {
	heads, kvHeads, dim, length int
	q, k, v                     []float32
	window                      int
	cap                         float32   // of scores; 0: none
	sinks                       []float32 // of the heads; nil: none
	pages                       []int32   // of the sequence, scattered
}

func newAttention(heads, kvHeads, dim, length, window int) *attention {
	a := &attention{heads: heads, kvHeads: kvHeads, dim: dim, length: length, window: window,
		q: random(length*heads*dim, 31), k: random(length*kvHeads*dim, 32), v: random(length*kvHeads*dim, 33)}
	n := ceilDiv(length, compute.Page)
	for i := range n {
		a.pages = append(a.pages, int32((i*7+3)%(n+1)))
	}
	for i := range n { // a permutation, whatever 7 and n+1 share
		a.pages[i] = int32(n - i)
	}
	return a
}

// bent makes scores, whose size is about a half, bend, and gives heads sinks below, among and above them.
func (a *attention) bent() *attention {
	a.cap, a.sinks = 0.7, make([]float32, a.heads)
	for h := range a.sinks {
		a.sinks[h] = []float32{-9, 0.5, 3, 12, 1}[h%5]
	}
	return a
}

// attn is what Attention is asked for.
func (a *attention) attn(d *Device) compute.Attn {
	o := compute.Attn{Window: a.window, Cap: a.cap}
	if a.sinks != nil {
		o.Sinks = d.Vector(a.sinks)
	}
	return o
}

// want is row p in float64, over keys, values and queries in f16.
func (a *attention) want(p int) []float64 {
	var out []float64
	from := 0
	if a.window > 0 {
		from = max(0, p+1-a.window)
	}
	for h := range a.heads {
		kh := h / (a.heads / a.kvHeads)
		scores, top := []float64{}, math.Inf(-1)
		for t := from; t <= p; t++ {
			var s float64
			for i := range a.dim {
				s += float64(half(a.q[(p*a.heads+h)*a.dim+i])) * float64(half(a.k[(t*a.kvHeads+kh)*a.dim+i]))
			}
			if s /= math.Sqrt(float64(a.dim)); a.cap > 0 {
				s = float64(a.cap) * math.Tanh(s/float64(a.cap))
			}
			scores, top = append(scores, s), max(top, s)
		}
		o, sum := make([]float64, a.dim), 0.0
		if a.sinks != nil {
			sink := float64(a.sinks[h])
			top = max(top, sink)
			sum = math.Exp(sink - top)
		}
		for i, s := range scores {
			e := math.Exp(s - top)
			sum += e
			for j := range o {
				o[j] += e * float64(half(a.v[((from+i)*a.kvHeads+kh)*a.dim+j]))
			}
		}
		for _, v := range o {
			out = append(out, v/sum)
		}
	}
	return out
}

// run stores the whole sequence in steps of `chunk`, and attends with rows of the last step that `rows` names, in that order.
func (a *attention) run(t testing.TB, d *Device, m compute.KVMemory, chunk int, positions []int) []float32 {
	t.Helper()
	kv := compute.KV{Memory: m, Layer: 1, Tables: [][]int32{nil, a.pages}}
	for from := 0; from < a.length; from += chunk {
		n := min(chunk, a.length-from)
		b := new(compute.Batch)
		for i := range n {
			b.Add(0, from+i, 1, false)
		}
		d.compute(t, func(s *step) compute.Tensor {
			s.AppendKV(b, kv, s.tensor(a.k[from*a.kvHeads*a.dim:][:n*a.kvHeads*a.dim], a.kvHeads*a.dim), s.tensor(a.v[from*a.kvHeads*a.dim:][:n*a.kvHeads*a.dim], a.kvHeads*a.dim))
			return compute.Tensor{}
		})
	}
	b, attn := new(compute.Batch), a.attn(d)
	var q []float32
	for _, p := range positions {
		slot := 1
		if p < 0 { // a row without a sequence
			slot, p = -1, 0
		}
		b.Add(0, p, slot, false)
		q = append(q, a.q[p*a.heads*a.dim:][:a.heads*a.dim]...)
	}
	return d.compute(t, func(s *step) compute.Tensor {
		return s.Attention(b, s.tensor(q, a.heads*a.dim), kv, attn)
	})
}

// Probabilities and the result are rounded to f16; ex2 and f32 sums add less than 1e-6.
const attentionTolerance = 5e-4

func TestAttentionAgreesWithFloat64(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct {
		heads, kvHeads, dim, length, window int
		bent                                bool
	}{
		{4, 2, 16, 200, 0, false}, {6, 2, 32, 200, 16, false}, {9, 3, 64, 1500, 0, false}, {4, 1, 256, 1200, 512, false}, {8, 2, 128, 1100, 0, false},
		{20, 1, 64, 300, 0, false}, {8, 1, 512, 1200, 0, false}, {6, 2, 512, 300, 100, false}, {4, 4, 80, 130, 0, false}, {2, 1, 96, 130, 64, false},
		{2, 2, 192, 130, 0, false}, {1, 1, 64, 9300, 0, false},
		{9, 3, 64, 1500, 128, true}, {8, 2, 128, 1100, 0, true}, {4, 1, 256, 1200, 512, true}, {8, 1, 512, 300, 0, true},
	} {
		t.Run(fmt.Sprintf("%d heads of %d over %d, %d positions, window %d, bent %v", c.heads, c.dim, c.kvHeads, c.length, c.window, c.bent), func(t *testing.T) {
			a := newAttention(c.heads, c.kvHeads, c.dim, c.length, c.window)
			if c.bent {
				a.bent()
			}
			m, err := d.NewKV(compute.KVShape{Layers: 3, Heads: c.kvHeads, HeadDim: c.dim}, len(a.pages)+1)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			positions := []int{0, 1, 62, 63, 64, 65, -1, 127, c.length / 2, c.length - 1}
			got := a.run(t, d, m, 128, positions)
			width := c.heads * c.dim
			for i, p := range positions {
				if row := got[i*width:][:width]; p < 0 {
					bitsEqual(t, "a row without a sequence", row, make([]float32, width))
				} else {
					closeTo(t, fmt.Sprintf("position %d", p), row, a.want(p), attentionTolerance)
				}
			}
		})
	}
}

// R1 to R3: alone or in company, in any order, however the sequence was cut into steps, whatever lies beyond.
func TestAttentionOfARowIsTheSameInAnyCompany(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct{ dim, window int }{{64, 0}, {128, 300}, {256, 0}, {512, 0}} {
		a := newAttention(8, 2, c.dim, 1400, c.window)
		m, err := d.NewKV(compute.KVShape{Layers: 3, Heads: 2, HeadDim: c.dim}, len(a.pages)+1)
		if err != nil {
			t.Fatal(err)
		}
		var positions []int
		for p := range 700 {
			positions = append(positions, (p*3+1)%1400)
		}
		all := a.run(t, d, m, 512, positions)
		width := 8 * c.dim
		for _, i := range []int{0, 1, 30, 333, 699} {
			bitsEqual(t, fmt.Sprintf("dim %d: position %d alone", c.dim, positions[i]), a.run(t, d, m, 100, positions[i:i+1]), all[i*width:][:width])
		}
		// The keys and values after a position may be anything, NaN included.
		for i := 700 * 2 * c.dim; i < len(a.k); i += 11 {
			a.k[i], a.v[i] = float32(math.NaN()), float32(math.Inf(1))
		}
		got := a.run(t, d, m, 300, []int{699, 640, 1399})
		for i, p := range positions {
			if p == 640 {
				bitsEqual(t, "position 640 before NaN", got[width:2*width], all[i*width:][:width])
			}
			if p == 699 {
				bitsEqual(t, "position 699 before NaN", got[:width], all[i*width:][:width])
			}
		}
		if last := got[2*width]; last == last && c.window == 0 {
			t.Errorf("dim %d: position 1399 attends to NaN and gives %v", c.dim, last)
		}
		m.Close()
	}
}
