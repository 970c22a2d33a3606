package cuda

import (
	"errors"
	"slices"
	"testing"

	"memra/compute"
	"memra/compute/cuda/internal/artefact"
	"memra/gguf"
	"memra/quant"
	"memra/sample"
)

func TestOpenNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name  string
		fake  func(*fake)
		index int
		words []string
	}{
		{"no GPU", func(f *fake) { f.fails["cuInit"] = errorNoDevice }, 0, []string{"no GPU", "driver sees none", "CPU"}},
		{"an old driver", func(f *fake) { f.driverVersion = 12040 }, 0, []string{"CUDA 12.4", "13.0", "580"}},
		{"a GPU that is not there", func(*fake) {}, 3, []string{"GPU 3 of 1"}},
		{"an old GPU", func(f *fake) { f.major, f.minor = 7, 5 }, 0, []string{"7.5", "8.0", "CPU"}},
		{"a GPU that another process holds", func(f *fake) { f.fails["cuDevicePrimaryCtxRetain"] = 46 }, 0, []string{"cuDevicePrimaryCtxRetain(0)", "another process"}},
		{"code that the driver refuses", func(f *fake) { f.fails["cuModuleLoadData"] = 222 }, 0, []string{"cuModuleLoadData(", "sm_90a", "UNSUPPORTED", "the driver's words"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			c.fake(f)
			_, err := open(f, c.index)
			mentions(t, err, c.words...)
		})
	}
}

func TestOutOfMemorySaysTheNumbersAndHarmsNothing(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	shape := compute.KVShape{Layers: 2, Heads: 2, HeadDim: 64}
	f.free = uint64(10*shape.PageBytes() + 5)
	_, err := d.NewKV(shape, 11)
	mentions(t, err, "out of memory", "11 KV pages", "10 pages would fit", "are free")
	var full *MemoryError
	if !errors.As(err, &full) || full.Needed != uint64(11*shape.PageBytes()) {
		t.Errorf("%v is no MemoryError of %d bytes", err, 11*shape.PageBytes())
	}
	kv, err := d.NewKV(shape, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Close(); err != nil {
		t.Fatal(err)
	}
	f.free = 1000
	_, err = d.Run(func(ops compute.Ops) compute.Tensor {
		x, _ := ops.(*step).newRows(3, 8)
		return x
	})
	mentions(t, err, "out of memory")
	f.free = 1 << 37
	if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return compute.Tensor{} }); err != nil {
		t.Errorf("a step after one that ran out of memory: %v", err)
	}
}

func TestAFaultComesBackFromTheStepAndStays(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	f.fails["cuStreamSynchronize"] = 700
	nothing := func(compute.Ops) compute.Tensor { return compute.Tensor{} }
	_, err := d.Run(nothing)
	mentions(t, err, "cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", "(700)", "the driver's words")
	delete(f.fails, "cuStreamSynchronize")
	_, err = d.Run(nothing)
	mentions(t, err, "failed earlier", "ILLEGAL_ADDRESS")
	_, err = d.NewKV(compute.KVShape{Layers: 1, Heads: 1, HeadDim: 64}, 1)
	mentions(t, err, "failed earlier")
	_, err = d.Pack(gguf.F32, 1, 8, make([]byte, 32), nil)
	mentions(t, err, "failed earlier")
}

func TestMeasuringTheBandwidthGivesItsMemoryBack(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	before := f.free
	for _, free := range []uint64{before, 1 << 30} { // the second has room for less than it would like
		f.free = free
		if _, err := d.ReadBandwidth(); err != nil {
			t.Fatal(err)
		}
		if f.free != free {
			t.Errorf("%d bytes are free afterwards, want %d", f.free, free)
		}
	}
	f.free = 100 << 20
	_, err := d.ReadBandwidth()
	mentions(t, err, "read bandwidth", "104857600 of")
	f.free = before
	f.fails["cuLaunchKernelEx"] = 700
	_, err = d.ReadBandwidth()
	mentions(t, err, "cuLaunchKernelEx(read", "ILLEGAL_ADDRESS")
	delete(f.fails, "cuLaunchKernelEx")
	_, err = d.Run(func(compute.Ops) compute.Tensor { return compute.Tensor{} })
	mentions(t, err, "failed earlier")
}

func TestEagerStepsAreNoGraphs(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	m := newToy(t, d, gguf.Q8_0, 64)
	step := func() {
		if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(2, 5)) }); err != nil {
			t.Fatal(err)
		}
	}
	d.SetEager(true)
	for range 3 {
		step()
	}
	if f.replays != 0 || d.Graphs() != 0 {
		t.Errorf("%d replays of %d graphs, want none", f.replays, d.Graphs())
	}
	d.SetEager(false)
	for range 3 {
		step()
	}
	if f.replays == 0 || d.Graphs() != 1 {
		t.Errorf("%d replays of %d graphs, want some of 1", f.replays, d.Graphs())
	}
	if names := d.KernelNames(); !slices.Contains(names, "add_norm") || len(names) >= d.Kernels() {
		t.Errorf("kernels %q of %d launches", names, d.Kernels())
	}
}

func TestAKernelIsAllowedTheSharedMemoryThatItIsLaunchedWith(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	k := &kernel{name: "k", shared: 48 << 10}
	for _, shared := range []int{1000, 100 << 10, 50 << 10} {
		if err := d.owner.do(func() error {
			return d.launchAll([]launch{newLaunch(k, shape{grid: grid(1, 1), block: 32, shared: shared})})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if f.shared != 100<<10 || k.shared != 100<<10 {
		t.Errorf("allowed %d bytes, want %d", f.shared, 100<<10)
	}
}

func TestAPanicOfTheModelReachesItsCaller(t *testing.T) {
	d := openFake(t, newFake())
	defer func() {
		if p := recover(); p != "of the model" {
			t.Errorf("recovered %v", p)
		}
	}()
	d.Run(func(compute.Ops) compute.Tensor { panic("of the model") })
}

// toy is a model of one layer with every operation; formats take turns in its weights.
type toy struct {
	embed, q, k, v, o, gate, up, down compute.Weight
	gain, head                        compute.Vector
	rope                              *compute.Rope
	kv                                compute.KV
	dim                               int
}

func newToy(t testing.TB, d *Device, format gguf.Type, dim int) *toy {
	t.Helper()
	const width, hidden, vocab, heads, kvHeads = 256, 512, 100, 4, 2
	m := &toy{dim: dim}
	pack := func(rows, width int) compute.Weight {
		w, err := d.Pack(format, rows, width, blocks(t, format, rows, width, uint64(rows+width)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	m.embed, m.q, m.k, m.v, m.o = pack(vocab, width), pack(heads*dim, width), pack(kvHeads*dim, width), pack(kvHeads*dim, width), pack(width, roundUp(heads*dim, 256))
	m.gate, m.up, m.down = pack(hidden, width), pack(hidden, width), pack(width, hidden)
	m.gain, m.head = d.Vector(ones(width)), d.Vector(ones(dim))
	var err error
	if m.rope, err = compute.NewRope(compute.RopeParams{Base: 10000, Dims: dim}); err != nil {
		t.Fatal(err)
	}
	if m.kv.Memory, err = d.NewKV(compute.KVShape{Layers: 1, Heads: kvHeads, HeadDim: dim}, 8); err != nil {
		t.Fatal(err)
	}
	m.kv.Tables = [][]int32{{0, 1, 2}, {3, 4, 5}}
	return m
}

func (m *toy) forward(ops compute.Ops, b *compute.Batch) compute.Tensor {
	x := ops.Embed(b, m.embed, 2)
	ops.Layer(0)
	x, n := ops.AddNorm(x, compute.Tensor{}, m.gain, 1e-5)
	q, k, v := ops.MatMul(n, m.q), ops.MatMul(n, m.k), ops.MatMul(n, m.v)
	q, k = ops.QKNormRope(b, q, k, compute.QK{HeadDim: m.dim, Rope: m.rope, QNorm: m.head, KNorm: m.head, Eps: 1e-5})
	ops.AppendKV(b, m.kv, k, ops.Columns(v, 0, v.Width))
	a := ops.Attention(b, q, m.kv, compute.Attn{Window: 100})
	y := ops.Norm(a, m.head, 1e-5) // as rows
	if a.Width == m.o.Width {
		y = ops.MatMul(a, m.o)
	} else {
		y = n
	}
	x, n = ops.AddNorm(x, y, m.gain, 1e-5)
	g, u := ops.MatMul(n, m.gate), ops.MatMul(ops.Norm(x, m.gain, 1e-5), m.up)
	y = ops.MatMul(ops.SwiGLU(g, u), m.down)
	biased := m.down
	biased.Bias = m.gain
	y = ops.Scale(ops.Add(y, ops.MatMul(ops.GeGLU(g, u), biased), 0.5), 1, 30)
	_, n = ops.AddNorm(x, y, m.gain, 1e-5)
	return ops.Logits(b, n, m.embed)
}

func rowsAt(n, position int) *compute.Batch {
	b := new(compute.Batch)
	for i := range n {
		b.Add(int32(i%100), position+i/2, i%2, i%3 == 0)
	}
	return b
}

// A launch whose arguments do not fit the compiled kernel panics (newLaunch), so this runs every launcher.
func TestEveryLauncherFitsItsKernel(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	for _, format := range allFormats() {
		for _, rows := range []int{1, 16, 20, 64, 100} {
			m := newToy(t, d, format, headDims[3+rows%4%3])
			b := rowsAt(rows, 3)
			for _, d.step.plain = range []bool{true, false, false, false} { // the third becomes a graph, with a program
				if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, b) }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, dim := range headDims {
		m := newToy(t, d, gguf.Q8_0, dim)
		for format := range kvFormats {
			kv, err := d.NewKV(compute.KVShape{Layers: 1, Heads: 2, HeadDim: dim, Format: format}, 8)
			if err != nil {
				t.Fatal(err)
			}
			m.kv.Memory = kv
			for _, rows := range []int{2, 16, 100} {
				for _, plain := range []bool{true, false, false} { // the third becomes a graph, with a program
					kv.(*kvMemory).plain = plain
					if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(rows, 3)) }); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if rate, err := d.ReadBandwidth(); err != nil || rate != (2<<30)/1e-3 { // the fake's events lie a millisecond apart
		t.Errorf("read bandwidth %v, %v", rate, err)
	}
	m := newToy(t, d, gguf.Q8_0, 64)
	raw := sample.Draw{Params: sample.Params{Temperature: 1, TopK: 5}, Adjust: []sample.Adjustment{{Token: 3, Add: 1}}, LogProb: true, Top: 3}
	filtered := raw
	filtered.Filtered = true
	for _, draw := range []sample.Draw{raw, filtered} {
		if _, err := d.Sample(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(1, 3)) }, []sample.Draw{draw}); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := d.NewRows(4, m.embed.Width)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Run(func(ops compute.Ops) compute.Tensor {
		ops.Keep(kept, ops.Embed(rowsAt(4, 3), m.embed, 1), []int32{0, 2}, []int32{3, 1})
		return ops.Kept(kept, []int32{1, 3})
	}); err != nil {
		t.Fatal(err)
	}
	for format := range kvFormats {
		newTurner(t, d, format, 64).run(t, d, 4, false)
	}
	launchChoices(t, d)
	launchDelta(t, d)
	launchExperts(t, d)
	units, err := artefact.Read(built())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if u.For(d.target) == nil {
			continue
		}
		for _, k := range u.Kernels {
			if f.launched[k.Name] == 0 {
				t.Errorf("no launcher launches %s of kernels/%s.cu", k.Name, u.Name)
			}
		}
	}
}

func TestAStepThatRepeatsBecomesAGraphOfTheSameLaunches(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	m := newToy(t, d, gguf.Q8_0, 64)
	var first []launch
	for position := range 130 { // across pages
		f.issued = nil
		if _, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.forward(ops, rowsAt(2, position)) }); err != nil {
			t.Fatal(err)
		}
		if position == 1 { // position 0 was launched kernel by kernel
			first = slices.Clone(f.issued)
		} else if position > 1 && !slices.Equal(first, f.issued) {
			t.Fatalf("position %d is launched unlike position 1", position)
		}
	}
	if f.replays != 129 || len(d.graphs.list) != 1 {
		t.Errorf("%d replays of %d graphs, want 129 of 1", f.replays, len(d.graphs.list))
	}
	if n := d.Kernels(); n == 0 || len(first) >= n {
		t.Errorf("%d operations are %d launches, want fewer: a program", n, len(first))
	}
}

func TestGraphsBeyondTheCacheTakeOverTheOldest(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	k := 0
	for n := range maxGraphs + 3 {
		for range 2 {
			if _, err := d.Run(func(ops compute.Ops) compute.Tensor {
				s := ops.(*step)
				a, _ := s.newRows(1, 8*(n+1))
				s.asOperand(a)
				return compute.Tensor{}
			}); err != nil {
				t.Fatal(err)
			}
			k++
		}
	}
	if len(d.graphs.list) != maxGraphs || f.replays != k/2 {
		t.Errorf("%d graphs and %d replays, want %d and %d", len(d.graphs.list), f.replays, maxGraphs, k/2)
	}
}

func allFormats() []gguf.Type {
	formats := []gguf.Type{gguf.Q2_K, gguf.IQ4_NL} // packed by way of float32
	for f := range sources {
		formats = append(formats, f)
	}
	slices.Sort(formats)
	return formats
}

func ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// blocks is a random weight in a format's bytes, with sane scales.
func blocks(t testing.TB, format gguf.Type, rows, width int, seed uint64) []byte {
	t.Helper()
	f, err := quant.For(format)
	if err != nil {
		t.Fatal(err)
	}
	values := random(rows*width, seed)
	for i := range values {
		values[i] *= 0.05
	}
	n, err := f.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, rows*n)
	if f.Quantize == nil { // random codes; the scale is where the format has it, and small
		for i, v := range random(len(data), seed) {
			data[i] = byte(int(v*1000) & 0x1f)
		}
		return data
	}
	f.Quantize(data, values, nil)
	return data
}

// What a step costs this machine, with a driver that does nothing: recording, comparing, replaying.
