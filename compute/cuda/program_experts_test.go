package cuda

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// mixture is a decoder with attention and experts. What it varies is what families differ in.
type mixture struct {
	mixtureShape
	embed, q, k, v, o             compute.Weight
	choice, open, gate1, up1, out compute.Weight // gate1, up1, out: of the shared expert
	experts                       []compute.Experts
	gain, sinks                   compute.Vector
	kv                            compute.KVMemory
	tables                        [][]int32
}

// mixtureShape is its experts: formats of gates and values, and of downs; widths.
type mixtureShape struct {
	name          string
	gates, downs  gguf.Type
	router        gguf.Type
	width, hidden int
	count         int
	routing       compute.Routing
	gating        compute.Gating
	biased        bool // with sinks, as gpt-oss has them
	layers        int  // 0: two
	shared        bool // an expert of all rows, as far as its gate opens
}

func mixtureShapes() []mixtureShape {
	normal := func(chosen int) compute.Routing { return compute.Routing{Chosen: chosen, Normalise: true} }
	return []mixtureShape{
		{name: "qwen35moe", gates: gguf.Q4_K, downs: gguf.Q6_K, router: gguf.BF16, width: 512, hidden: 256, count: 32, routing: normal(8), shared: true},
		{name: "qwen35moe, float32 router", gates: gguf.Q4_K, downs: gguf.Q4_K, router: gguf.F32, width: 512, hidden: 256, count: 24, routing: normal(8), shared: true},
		{name: "gpt-oss", gates: gguf.MXFP4, downs: gguf.MXFP4, router: gguf.BF16, width: 1440, hidden: 736, count: 8, routing: normal(4), gating: compute.ClampedSwiGLU, biased: true},
		{name: "mixtral", gates: gguf.Q8_0, downs: gguf.Q8_0, router: gguf.F32, width: 352, hidden: 1184, count: 8, routing: normal(2)},
		{name: "gemma4", gates: gguf.Q4_0, downs: gguf.Q5_0, router: gguf.F32, width: 352, hidden: 224, count: 16, routing: normal(3), gating: compute.GeGLU},
		{name: "glm4moe", gates: gguf.Q5_K, downs: gguf.Q5_K, router: gguf.BF16, width: 512, hidden: 768, count: 16,
			routing: compute.Routing{Chosen: 5, Score: compute.Sigmoid, Groups: 4, KeptGroups: 2, Scale: 2.5, Normalise: true}},
		{name: "everybody takes everything", gates: gguf.BF16, downs: gguf.BF16, router: gguf.BF16, width: 328, hidden: 200, count: 3, routing: compute.Routing{Chosen: 3}, biased: true},
		{name: "one of many", gates: gguf.Q6_K, downs: gguf.Q8_0, router: gguf.F32, width: 768, hidden: 256, count: 300, routing: normal(1)},
	}
}

func newMixture(t testing.TB, d *Device, shape mixtureShape, sequences int) *mixture {
	t.Helper()
	const vocab, heads, kvHeads, dim, pages = 256, 8, 2, 64, 2
	m := &mixture{mixtureShape: shape, gain: d.Vector(ones(shape.width))}
	m.layers = cmp.Or(m.layers, 2)
	seed := uint64(0)
	pack := func(f gguf.Type, rows, width int) compute.Weight {
		seed++
		w, err := d.Pack(f, rows, width, blocks(t, f, rows, width, seed), nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.biased {
			w.Bias = d.Vector(random(rows, 100+seed))
		}
		return w
	}
	bank := func(f gguf.Type, rows, width int) compute.Weight { // of one matrix, whose rows each expert has in another order
		seed++
		one, all := blocks(t, f, rows, width, seed), make([][]byte, m.count)
		for e := range all {
			at := len(one) / rows * (e % rows)
			all[e] = slices.Concat(one[at:], one[:at])
		}
		w := packAll(t, d, f, rows, width, all)
		if m.biased {
			w.Bias = d.Vector(random(m.count*rows, 100+seed))
		}
		return w
	}
	m.embed = pack(gguf.BF16, vocab, m.width)
	m.embed.Bias = compute.Vector{}
	m.q, m.k, m.v, m.o = pack(gguf.BF16, heads*dim, m.width), pack(gguf.BF16, kvHeads*dim, m.width), pack(gguf.BF16, kvHeads*dim, m.width), pack(gguf.Q8_0, m.width, heads*dim)
	m.choice = pack(m.router, m.count, m.width)
	for range m.layers {
		m.experts = append(m.experts, compute.Experts{Gate: bank(m.gates, m.hidden, m.width), Up: bank(m.gates, m.hidden, m.width), Down: bank(m.downs, m.width, m.hidden), Gating: m.gating, Limit: 2})
	}
	if m.shared {
		m.open, m.gate1, m.up1, m.out = pack(m.router, 1, m.width), pack(gguf.Q8_0, 256, m.width), pack(gguf.Q8_0, 256, m.width), pack(gguf.Q8_0, m.width, 256)
	}
	if m.biased {
		m.sinks = d.Vector(random(heads, 98))
	}
	var err error
	if m.kv, err = d.NewKV(compute.KVShape{Layers: m.layers, Heads: kvHeads, HeadDim: dim}, sequences*pages); err != nil {
		t.Fatal(err)
	}
	m.tables = pageTables(sequences, pages)
	return m
}

func (m *mixture) forward(ops compute.Ops, b *compute.Batch) compute.Tensor {
	x, y := ops.Embed(b, m.embed, 1), compute.Tensor{}
	var n compute.Tensor
	for i, experts := range m.experts {
		ops.Layer(i)
		kv := compute.KV{Memory: m.kv, Layer: i, Tables: m.tables}
		x, n = ops.AddNorm(x, y, m.gain, 1e-5)
		q, k, v := ops.MatMul(n, m.q), ops.MatMul(n, m.k), ops.MatMul(n, m.v)
		q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: 64})
		ops.AppendKV(b, kv, k, v)
		y = ops.MatMul(ops.Attention(b, q, kv, compute.Attn{Sinks: m.sinks}), m.o)
		x, n = ops.AddNorm(x, y, m.gain, 1e-5)
		r := ops.Router(n, m.choice, m.routing)
		var shared compute.Shared
		if m.shared {
			shared = compute.Shared{Gate: ops.MatMul(n, m.open), Out: ops.MatMul(ops.SwiGLU(ops.MatMul(n, m.gate1), ops.MatMul(n, m.up1)), m.out)}
		}
		y = ops.Experts(n, r, experts, shared)
	}
	_, n = ops.AddNorm(x, y, m.gain, 1e-5)
	return ops.Logits(b, n, m.embed)
}

// A step of few rows is one program; with more pairs of row and expert the experts stay kernels.
func TestAMixtureIsOneProgram(t *testing.T) {
	for _, shape := range mixtureShapes() {
		f := newFake()
		d := openFake(t, f)
		m := newMixture(t, d, shape, 16)
		for _, rows := range []int{1, 3, 4, 8, 9, 16} {
			for range 3 { // launched, captured, replayed
				f.issued = nil
				if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsFrom(3, 1, rows, 0)) }); err != nil {
					t.Fatal(err)
				}
			}
			var names []string
			for _, l := range f.issued {
				names = append(names, l.kernel.name)
			}
			one := slices.Equal(names, []string{"embed_f16", fmt.Sprintf("program_%d_64", tileRows(rows))})
			few := rows*shape.routing.Chosen <= crowdPairs
			if one != few {
				t.Errorf("%s, %d rows: a step is %v; one program: %v, want %v", shape.name, rows, names, one, few)
			}
			if kernels := slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "experts_") }); kernels == few {
				t.Errorf("%s, %d rows: a step is %v; experts as kernels: %v, want %v", shape.name, rows, names, kernels, !few)
			}
		}
	}
}

func TestAMixturesProgramComputesTheBitsOfItsKernels(t *testing.T) {
	d := gpu(t)
	for _, shape := range mixtureShapes() {
		t.Run(shape.name, func(t *testing.T) {
			for _, rows := range []int{1, 2, 3, 5, 8, 9, 13, 16} {
				m := newMixture(t, d, shape, rows)
				for _, position := range []int{0, 1, 70} {
					b := new(compute.Batch)
					for r := range rows {
						b.Add(int32(11*r+3*position)%256, position, r, r%3 != 1)
					}
					d.programsBits(t, fmt.Sprintf("%d rows, position %d", rows, position), m.forward, b)
				}
				m.kv.Close()
			}
		})
	}
}

// phases are the names of a program's instructions, by phase.
func (p *draft) phases() (all [][]string) {
	for i := range p.list {
		in := &p.list[i]
		if int(in.phase) == len(all) {
			all = append(all, nil)
		}
		all[in.phase] = append(all[in.phase], operations[in.operation].name)
	}
	return all
}

// What experts wait for is what they need: the router's products are a phase like another matmul's, and routing itself is none. Biases of one
// matmul are one phase.
func TestMixturesHaveFewPhases(t *testing.T) {
	for i, want := range map[int][][]string{
		0: {{"add_norm"}, {"matmul_f16", "matmul_q8"}, {"route", "matmul_q8", "experts_q4m"}, {"experts_q6"}, {"experts_add"}, {"add_norm"}},
		2: {{"matmul_f16"}, {"add_bias", "add_bias", "add_bias"}, {"rope_append_f16"}, {"attend_f16"}, {"matmul_q8"}, {"add_bias"}, {"add_norm"},
			{"matmul_f16"}, {"route", "experts_mx4"}, {"experts_mx4"}, {"experts_add"}, {"add_norm"}},
	} {
		d := openFake(t, newFake())
		m := newMixture(t, d, mixtureShapes()[i], 1)
		p := draft{blocks: d.multiprocessors}
		if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsFrom(3, 1, 1, 0)) }); err != nil {
			t.Fatal(err)
		}
		for i := range d.step.launches {
			p.add(&d.step.launches[i])
		}
		all, found := p.phases(), false
		for at := 0; at+len(want) <= len(all); at++ {
			found = found || slices.EqualFunc(all[at:][:len(want)], want, slices.Equal)
		}
		if !found {
			t.Errorf("%s: phases are %v, want among them %v", m.name, all, want)
		}
	}
}

// Blocks of a program alone know who takes which expert, so a program that would end before all is computed stays kernels.
func TestAProgramHasAllOfAMixtureOrNothing(t *testing.T) {
	d := openFake(t, newFake())
	m := newMixture(t, d, mixtureShapes()[3], 1)
	if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsFrom(3, 1, 1, 0)) }); err != nil {
		t.Fatal(err)
	}
	list := d.step.launches
	for n := range list {
		all, memory, err := d.fuse(list[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range memory {
			if err := d.free(at); err != nil {
				t.Fatal(err)
			}
		}
		open := 0
		for i := range list[:n] {
			open += map[string]int{"route": 1, "experts_add": -1}[list[i].kernel.name]
		}
		if open > 0 && !slices.Equal(all, list[:n]) {
			t.Errorf("%d launches, the last of them %s, became %d, want them as they were", n, list[n-1].kernel.name, len(all))
		}
	}
}
