package cuda

import (
	"bytes"
	"fmt"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// hybrid is layers of which three in four have delta nets and the third gated attention, whose widths of heads are those of Qwen3.5.
type hybrid struct {
	embed, q, k, v, o        compute.Weight
	qkv, z, beta, alpha, out compute.Weight
	gate, up, down           compute.Weight
	gain, conv, norm         compute.Vector
	gates                    compute.DeltaGates
	rope                     *compute.Rope
	kv                       compute.KVMemory
	delta                    compute.DeltaMemory
	tables, states           [][]int32 // pages of either, by sequence
	layers                   int
}

const hybridPages = 4 // of a sequence

func newHybrid(t testing.TB, d *Device, sequences int, grouped bool, layers int) *hybrid {
	t.Helper()
	const width, vocab, heads, kvHeads, dim, hidden = 512, 256, 4, 2, 256, 768
	seed := uint64(0)
	pack := func(rows, width int) compute.Weight {
		seed++
		w, err := d.Pack(gguf.Q8_0, rows, width, blocks(t, gguf.Q8_0, rows, width, seed), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	shape := compute.DeltaShape{Layers: layers, KeyHeads: 2, ValueHeads: 4, HeadDim: deltaFewDim, Taps: 4, Format: d.DeltaFormat()}
	inner := shape.ValueHeads * shape.HeadDim
	a := random(shape.ValueHeads, 91)
	for i, v := range a {
		a[i] = -0.1 - v*v
	}
	m := &hybrid{layers: layers, embed: pack(vocab, width), q: pack(2*heads*dim, width), k: pack(kvHeads*dim, width), v: pack(kvHeads*dim, width), o: pack(width, heads*dim),
		qkv: pack(shape.Width(), width), z: pack(inner, width), beta: pack(shape.ValueHeads, width), alpha: pack(shape.ValueHeads, width), out: pack(width, inner),
		gate: pack(hidden, width), up: pack(hidden, width), down: pack(width, hidden), gain: d.Vector(ones(width)),
		conv: d.Vector(random(shape.Taps*shape.Width(), 92)), norm: d.Vector(ones(shape.HeadDim)),
		gates: compute.DeltaGates{A: d.Vector(a), DT: d.Vector(random(shape.ValueHeads, 93)), Eps: 1e-6, Grouped: grouped}}
	var err error
	if m.rope, err = compute.NewRope(compute.RopeParams{Base: 10000, Dims: 64}); err != nil {
		t.Fatal(err)
	}
	if m.kv, err = d.NewKV(compute.KVShape{Layers: layers, Heads: kvHeads, HeadDim: dim}, sequences*hybridPages); err != nil {
		t.Fatal(err)
	}
	if m.delta, err = d.NewDelta(shape, sequences*hybridPages); err != nil {
		t.Fatal(err)
	}
	for i := range sequences {
		var table []int32
		for j := range hybridPages {
			table = append(table, int32(i*hybridPages+j))
		}
		m.tables, m.states = append(m.tables, table), append(m.states, append([]int32(nil), table...))
	}
	return m
}

func (m *hybrid) close() { m.kv.Close(); m.delta.Close() }

func (m *hybrid) forward(ops compute.Ops, b *compute.Batch) compute.Tensor {
	x, y := ops.Embed(b, m.embed, 1), compute.Tensor{}
	var n compute.Tensor
	for i := range m.layers {
		ops.Layer(i)
		x, n = ops.AddNorm(x, y, m.gain, 1e-5)
		if i%4 != 2 {
			d := compute.Delta{Memory: m.delta, Layer: i, Tables: m.states}
			qkv, z, beta, alpha := ops.MatMul(n, m.qkv), ops.MatMul(n, m.z), ops.MatMul(n, m.beta), ops.MatMul(n, m.alpha)
			o := ops.GatedDelta(b, d, ops.CausalConv(b, d, qkv, m.conv), beta, alpha, m.gates)
			y = ops.MatMul(ops.GatedNorm(o, z, m.norm, 1e-5), m.out)
		} else {
			kv := compute.KV{Memory: m.kv, Layer: i, Tables: m.tables}
			gated, k, v := ops.MatMul(n, m.q), ops.MatMul(n, m.k), ops.MatMul(n, m.v)
			q, k := ops.QKNormRope(b, gated, k, compute.QK{HeadDim: 256, Rope: m.rope, Gated: true})
			ops.AppendKV(b, kv, k, v)
			y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Gate: gated}), m.o)
		}
		x, n = ops.AddNorm(x, y, m.gain, 1e-5)
		y = ops.MatMul(ops.SwiGLU(ops.MatMul(n, m.gate), ops.MatMul(n, m.up)), m.down)
	}
	_, n = ops.AddNorm(x, y, m.gain, 1e-5)
	return ops.Logits(b, n, m.embed)
}

// rowsFrom is so many rows of each of so many sequences, from a position on, and rows without a sequence.
func rowsFrom(position, rows, sequences, idle int) *compute.Batch {
	b := new(compute.Batch)
	for r := range rows { // those of a sequence are apart
		for s := range sequences {
			b.Add(int32(31*s+7*(position+r)+5)%256, position+r, s, true)
		}
	}
	for range idle {
		b.Add(3, 5, -1, true)
	}
	return b
}

func TestAHybridIsOneProgram(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	m := newHybrid(t, d, 16, false, 3)
	for _, c := range []struct {
		rows, sequences, idle int
		want                  string
	}{
		{1, 1, 0, "[embed_q8 program_8_256]"}, {1, 1, 3, "[embed_q8 program_8_256]"}, {2, 2, 0, "[embed_q8 program_8_256]"}, {4, 2, 0, "[embed_q8 program_16_256]"},
		{1, 16, 0, "[embed_q8 program_16_256]"}, {8, 2, 0, "[embed_q8 program_16_256]"}, {1, 0, 8, "[embed_q8 program_16_256]"},
	} {
		for range 3 { // launched, captured, replayed
			f.issued = nil
			if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsFrom(3, c.rows, c.sequences, c.idle)) }); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, l := range f.issued {
			names = append(names, l.kernel.name)
		}
		if fmt.Sprint(names) != c.want {
			t.Errorf("%d rows of %d sequences and %d of none: a step is %v, want %v", c.rows, c.sequences, c.idle, names, c.want)
		}
	}
}

// pages is all that the delta nets remember.
func (m *hybrid) pages(t *testing.T) []byte {
	t.Helper()
	n := m.delta.Shape().PageBytes()
	all := make([]byte, n*m.delta.Pages())
	for i := range m.delta.Pages() {
		if err := m.delta.Read(i, all[i*n:][:n]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func (m *hybrid) restore(t *testing.T, all []byte) {
	t.Helper()
	n := m.delta.Shape().PageBytes()
	for i := range m.delta.Pages() {
		if err := m.delta.Write(i, all[i*n:][:n]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAHybridsProgramComputesAndKeepsTheBitsOfItsKernels(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct{ rows, sequences, idle int }{{1, 1, 0}, {1, 3, 2}, {3, 1, 0}, {8, 1, 0}, {4, 4, 0}, {1, 16, 0}, {15, 1, 1}, {16, 1, 0}} {
		for _, position := range []int{0, 1, 7, 8, 15, 16, 17, 31, 62, 63, 64, 65, 128} {
			for _, hole := range []bool{false, true} { // the page that begins in the step is not kept
				begins := (position + c.rows - 1) / compute.Page
				if hole && (begins*compute.Page < position || begins == 0) {
					continue
				}
				name := fmt.Sprintf("%d rows of %d sequences and %d of none from %d, hole %v", c.rows, c.sequences, c.idle, position, hole)
				m := newHybrid(t, d, c.sequences, c.rows%2 == 0, 3)
				run := func(b *compute.Batch) []float32 {
					return d.compute(t, func(s *step) compute.Tensor { return m.forward(s, b) })
				}
				d.SetEager(true)
				m.restore(t, make([]byte, m.delta.Pages()*m.delta.Shape().PageBytes()))
				if position > 0 {
					run(rowsFrom(0, position, c.sequences, 0))
				}
				if hole {
					for _, table := range m.states {
						table[begins] = -1
					}
				}
				before, b := m.pages(t), rowsFrom(position, c.rows, c.sequences, c.idle)
				want := run(b)
				kept := m.pages(t)
				m.restore(t, before)
				d.SetEager(false)
				for range 3 { // launch by launch, captured, replayed
					m.restore(t, before)
					bitsEqual(t, name, run(b), want)
					if got := m.pages(t); !bytes.Equal(got, kept) {
						t.Errorf("%s: what is kept differs", name)
					}
				}
				m.close()
				if t.Failed() {
					return
				}
			}
		}
	}
}
