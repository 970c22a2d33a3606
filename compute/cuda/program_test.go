package cuda

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/gguf"
)

func TestOperationsAreThoseOfTheProgram(t *testing.T) {
	src, err := os.ReadFile("kernels/program.cuh")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(src), "#define EACH_OPERATION(X)")
	list, _, _ = strings.Cut(list, "#define NAME")
	var names []string
	for _, m := range regexp.MustCompile(`X\((\w+)\)`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	var have []string
	for _, o := range operations {
		have = append(have, o.name)
	}
	if !slices.Equal(names, have) {
		t.Errorf("program.cuh has %v, program.go %v", names, have)
	}
	d := openFake(t, newFake())
	for _, o := range operations {
		for name, k := range d.kernels {
			if rest, ok := strings.CutPrefix(name, o.kernel); o.kernel != "" && ok && (rest == "" || strings.HasPrefix(o.kernel, "matmul") && regexp.MustCompile(`^_\d+$`).MatchString(rest)) && len(k.params) != o.params {
				t.Errorf("kernel %s has %d parameters, the program takes %d", name, len(k.params), o.params)
			}
		}
	}
}

// stack is a decoder of a few layers, with formats that take turns.
type stack struct {
	layers []*toy
	kv     compute.KVMemory
	tables [][]int32
	attn   compute.Attn
	gate   func(ops compute.Ops, g, u compute.Tensor) compute.Tensor
}

func newStack(t testing.TB, d *Device, formats []gguf.Type, hidden, dim, layers, sequences int) *stack {
	t.Helper()
	const width, vocab, heads, kvHeads, pages = 768, 256, 8, 2, 6
	s := &stack{gate: compute.Ops.SwiGLU}
	n := 0
	pack := func(rows, width int) compute.Weight {
		n++
		f := formats[n%len(formats)]
		w, err := d.Pack(f, rows, width, blocks(t, f, rows, width, uint64(n)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	rope, err := compute.NewRope(compute.RopeParams{Base: 10000, Dims: dim})
	if err != nil {
		t.Fatal(err)
	}
	if s.kv, err = d.NewKV(compute.KVShape{Layers: layers, Heads: kvHeads, HeadDim: dim}, sequences*pages); err != nil {
		t.Fatal(err)
	}
	s.tables = pageTables(sequences, pages)
	embed := pack(vocab, width)
	for range layers {
		s.layers = append(s.layers, &toy{embed: embed, q: pack(heads*dim, width), k: pack(kvHeads*dim, width), v: pack(kvHeads*dim, width), o: pack(width, heads*dim),
			gate: pack(hidden, width), up: pack(hidden, width), down: pack(width, hidden), gain: d.Vector(ones(width)), head: d.Vector(ones(dim)), rope: rope, dim: dim})
	}
	return s
}

func (m *stack) forward(ops compute.Ops, b *compute.Batch) compute.Tensor {
	x, y := ops.Embed(b, m.layers[0].embed, 1), compute.Tensor{}
	var n compute.Tensor
	for i, l := range m.layers {
		ops.Layer(i)
		kv := compute.KV{Memory: m.kv, Layer: i, Tables: m.tables}
		x, n = ops.AddNorm(x, y, l.gain, 1e-5)
		q, k, v := ops.MatMul(n, l.q), ops.MatMul(n, l.k), ops.MatMul(n, l.v)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: l.dim, Rope: l.rope, QNorm: l.head, Eps: 1e-5})
		ops.AppendKV(b, kv, k, v)
		y = ops.Norm(ops.MatMul(ops.Attention(b, q, kv, m.attn), l.o), l.gain, 1e-5)
		x, n = ops.AddNorm(x, y, l.gain, 1e-5)
		y = ops.MatMul(m.gate(ops, ops.MatMul(n, l.gate), ops.MatMul(n, l.up)), l.down)
	}
	_, n = ops.AddNorm(x, y, m.layers[0].gain, 1e-5)
	return ops.Logits(b, n, m.layers[0].embed)
}

// oddments is a layer of what a stack does not do: biases, gates of attention, gated norms, caps, sums and parts of rows.
type oddments struct {
	embed, q, k, v, z, o compute.Weight
	gain, group          compute.Vector
	kv                   compute.KVMemory
	tables               [][]int32
}

func newOddments(t testing.TB, d *Device, sequences int) *oddments {
	t.Helper()
	const width, heads, kvHeads, dim, pages = 320, 8, 2, 64, 6
	seed := uint64(0)
	pack := func(rows int) compute.Weight {
		seed++
		w, err := d.Pack(gguf.Q8_0, rows, width, blocks(t, gguf.Q8_0, rows, width, seed), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	biased := func(rows int) compute.Weight {
		w := pack(rows)
		w.Bias = d.Vector(random(rows, seed))
		return w
	}
	m := &oddments{embed: pack(250), q: biased(2 * heads * dim), k: biased(kvHeads * dim), v: pack(kvHeads * dim), z: pack(width), o: biased(width),
		gain: d.Vector(ones(width)), group: d.Vector(random(64, 99))}
	var err error
	if m.kv, err = d.NewKV(compute.KVShape{Layers: 1, Heads: kvHeads, HeadDim: dim}, sequences*pages); err != nil {
		t.Fatal(err)
	}
	m.tables = pageTables(sequences, pages)
	return m
}

func (m *oddments) forward(ops compute.Ops, b *compute.Batch) compute.Tensor {
	x := ops.Embed(b, m.embed, 1)
	ops.Layer(0)
	kv := compute.KV{Memory: m.kv, Tables: m.tables}
	_, n := ops.AddNorm(x, compute.Tensor{}, m.gain, 1e-5)
	gated, k, v := ops.MatMul(n, m.q), ops.MatMul(n, m.k), ops.MatMul(n, m.v)
	q, k := ops.QKNormRope(b, gated, k, compute.QK{HeadDim: 64, Gated: true})
	ops.AppendKV(b, kv, k, v)
	y := ops.Attention(b, q, kv, compute.Attn{Gate: gated})
	part := ops.Columns(y, 64, x.Width)
	z := ops.Scale(ops.MatMul(n, m.z), 0.5, 3)
	x = ops.Add(x, ops.MatMul(ops.GatedNorm(part, z, m.group, 1e-5), m.o), 0.7)
	_, n = ops.AddNorm(x, compute.Tensor{}, m.gain, 1e-5)
	return ops.Scale(ops.Logits(b, n, m.embed), 1, 30)
}

// Nothing of a decoder but the embedding stays outside of a program: a kernel in between would let the memory rest.
func TestADecoderIsOneProgram(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	oddments, stack := newOddments(t, d, 2), newStack(t, d, []gguf.Type{gguf.Q8_0}, 1536, 64, 2, 2)
	for name, forward := range map[string]func(compute.Ops, *compute.Batch) compute.Tensor{"oddments": oddments.forward, "a stack": stack.forward} {
		for range 3 { // launched, captured, replayed
			f.issued = nil
			if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return forward(ops, rowsAt(2, 3)) }); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, l := range f.issued {
			names = append(names, l.kernel.name)
		}
		if !slices.Equal(names, []string{"embed_q8", "program_8_64"}) {
			t.Errorf("%s: a step is %v, want embed_q8 and program_8_64", name, names)
		}
	}
}

// programsBits compares a step that has become a program, the third time, with its launches one by one.
func (d *Device) programsBits(t *testing.T, name string, forward func(compute.Ops, *compute.Batch) compute.Tensor, b *compute.Batch) {
	t.Helper()
	run := func() []float32 { return d.compute(t, func(s *step) compute.Tensor { return forward(s, b) }) }
	d.SetEager(true)
	want := run()
	d.SetEager(false)
	for range 3 {
		bitsEqual(t, name, run(), want)
	}
}

func TestAProgramOfOddmentsComputesTheBitsOfItsKernels(t *testing.T) {
	d := gpu(t)
	for _, rows := range []int{1, 7, 9, 16} {
		m := newOddments(t, d, rows)
		for _, position := range []int{0, 1, 63, 64, 300} {
			b := new(compute.Batch)
			for r := range rows {
				b.Add(int32(7*r+position)%250, position, r, r%3 != 1)
			}
			d.programsBits(t, fmt.Sprintf("%d rows, position %d", rows, position), m.forward, b)
		}
		m.kv.Close()
	}
}

func TestAProgramComputesTheBitsOfItsKernels(t *testing.T) {
	d := gpu(t)
	mixes := [][]gguf.Type{{gguf.Q8_0}, {gguf.Q4_K, gguf.Q6_K, gguf.Q4_K}, {gguf.BF16, gguf.Q5_K, gguf.Q4_0, gguf.Q5_0}}
	for i, formats := range mixes {
		for _, dim := range []int{64, 128, 256} {
			for _, rows := range []int{1, 7, 9, 16, 40} {
				t.Run(fmt.Sprintf("%v/dim=%d/rows=%d", formats, dim, rows), func(t *testing.T) {
					m := newStack(t, d, formats, 1536, dim, 2, min(rows, 16))
					defer m.kv.Close()
					if i == 1 {
						m.gate = compute.Ops.GeGLU
						m.attn = compute.Attn{Cap: 2, Sinks: d.Vector([]float32{-3, 0, 1, 2, 3, 4, 5, 12})}
					}
					for depth := 0; depth < 330; depth += 150 - 20*i {
						for _, position := range []int{depth, depth + 1, depth + 2} {
							b := new(compute.Batch)
							for r := range rows {
								b.Add(int32(7*r+position)%256, position+r/16, r%16, r%3 != 1)
							}
							d.programsBits(t, fmt.Sprintf("position %d", position), m.forward, b)
							if t.Failed() {
								return
							}
						}
					}
				})
			}
		}
	}
}

// K of 17,152 is 33 segments and a half: more than a chunk of kernels/strips.cuh holds of 16 rows, so sums go on from chunk to chunk.
func TestAProgramAddsUpMoreSegmentsThanAChunkHolds(t *testing.T) {
	d := gpu(t)
	for _, format := range []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.Q6_K} {
		m := newStack(t, d, []gguf.Type{format}, 17152, 64, 1, 16)
		for _, rows := range []int{1, 3, 8, 9, 16} {
			b := new(compute.Batch)
			for r := range rows {
				b.Add(int32(7*r)%256, 0, r, true)
			}
			d.programsBits(t, fmt.Sprintf("%v, %d rows", format, rows), m.forward, b)
		}
		m.kv.Close()
	}
}

// A warp that multiplies two strips at a time waits for two stages, of experts as well.
func TestAProgramsRingsHaveRoomForTwoStages(t *testing.T) {
	number := func(name string) int16 {
		return int16(slices.IndexFunc(operations, func(o operation) bool { return o.name == name }))
	}
	var multiplies []string
	for _, l := range programLayouts {
		multiplies = append(multiplies, "matmul_"+l.name)
	}
	for _, l := range expertLayouts {
		multiplies = append(multiplies, "experts_"+l.name)
	}
	for _, tile := range programTiles {
		for _, dim := range programDims {
			for _, name := range multiplies {
				for rows := 1; rows <= tile; rows++ {
					in := instruction{operation: number(name)}
					in.args[matmulRows] = uint64(rows)
					p := &draft{tile: tile, dim: dim, list: []instruction{{operation: number("attend_f16")}, {operation: number("route"), x: int32(rows)}, in}}
					if r := p.rings(); r.pages < 2 || r.strips < 2 || r.bytes() > programRoom(dim) {
						t.Errorf("%d rows in tiles of %d, heads of %d, %s: %+v of %d bytes, want two stages of either", rows, tile, dim, name, r, programRoom(dim))
					}
				}
			}
		}
	}
}
