package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
	"memra/state"
)

const tinyModels = "../../model/testdata/tiny"

// tiny opens a tiny model.
func tiny(t *testing.T, d *Device, name string) (*golden.Tiny, *model.Model, *state.Pool) {
	t.Helper()
	g, src := tinySource(t, name)
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: 4000, Sequences: 4, Step: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return g, m, pool
}

// feed computes tokens of each sequence in one step, and returns a copy of all their logits, by sequence.
func feed(t *testing.T, d compute.Device, m *model.Model, pool *state.Pool, sequences []*state.Sequence, tokens [][]int32) [][][]float32 {
	t.Helper()
	b := new(compute.Batch)
	for i, s := range sequences {
		for j, token := range tokens[i] {
			b.Add(token, s.Len()+j, i, true)
		}
		if err := s.Extend(len(tokens[i])); err != nil {
			t.Fatal(err)
		}
	}
	view := pool.View(sequences...)
	rows, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.Forward(ops, b, view) })
	if err != nil {
		t.Fatal(err)
	}
	out := make([][][]float32, len(sequences))
	for i := range sequences {
		for range tokens[i] {
			out[i] = append(out[i], append([]float32(nil), rows[0]...))
			rows = rows[1:]
		}
	}
	return out
}

func tinyNames(t *testing.T) (names []string) {
	files, _ := filepath.Glob(tinyModels + "/*.json.gz")
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json.gz"))
	}
	if len(names) == 0 {
		t.Fatal("no tiny models")
	}
	return names
}

// The GPU errs as much as a float32 model errs whose matrices were moved at random by what the GPU rounds, within a factor of four.
// Weights and activations are f16 in a product: 2^-12*sqrt(3) of it together, 4.2e-4 (internal/check states the parts); keys and values
// are f16 on both sides. The CPU computes such models, so the bound knows how each family amplifies. A row counts by the norm of
// its error over the norm of its logits; three quarters of the rows must be within what three quarters of the moved model's rows are: in
// a mixture, an error may change which expert a row takes, and the row with it.
func TestFamiliesAgreeWithTransformersOnTheGPU(t *testing.T) {
	d := gpu(t)
	reference, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	for n, name := range tinyNames(t) {
		t.Run(name, func(t *testing.T) {
			g, src := tinySource(t, name)
			got := rowErrors(t, d, src, g)
			var bound float64
			for draw := range 3 {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(draw)))
				bound = max(bound, 4*rowErrors(t, reference, movedSource(t, rng, src), g))
			}
			t.Logf("rows err by %.2g, bound %.2g", got, bound)
			if !(got <= bound && bound < 0.3) {
				t.Errorf("rows err by %.2g, want at most %.2g, and that below 0.3", got, bound)
			}
		})
	}
}

// tinySource is a tiny model as a source.
func tinySource(t *testing.T, name string) (*golden.Tiny, model.Source) {
	t.Helper()
	g, err := golden.LoadTiny(filepath.Join(tinyModels, name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, g.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return g, model.GGUF(f)
}

// rowErrors is what three quarters of the recorded rows of logits err by, at most, relative to their norms.
func rowErrors(t *testing.T, d compute.Device, src model.Source, g *golden.Tiny) float64 {
	t.Helper()
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: 400, Sequences: 1, Step: 128})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var all []float64
	for _, p := range g.Prompts {
		s := pool.NewSequence()
		rows := feed(t, d, m, pool, []*state.Sequence{s}, [][]int32{p.Tokens})[0]
		for i, position := range p.Positions {
			want := make([]float64, len(p.Logits[i]))
			for j, v := range p.Logits[i] {
				want[j] = float64(v)
			}
			all = append(all, relative(rows[position], want))
		}
		s.Free()
	}
	slices.Sort(all)
	return all[len(all)*3/4]
}

// moved is a model in memory whose matrices are moved by random errors of the size of the GPU's roundings.
type moved struct {
	model.Source
	tensors []gguf.Tensor
}

func (m moved) Tensors() []gguf.Tensor { return m.tensors }

func movedSource(t *testing.T, rng *rand.Rand, src model.Source) model.Source {
	t.Helper()
	m := moved{Source: src}
	for _, w := range src.Tensors() {
		if len(w.Shape) > 1 && w.Type == gguf.F32 {
			from, err := w.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			data := make([]byte, 0, len(from))
			for at := 0; at < len(from); at += 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(from[at:]))
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v+float32(4.2e-4*float64(v)*rng.NormFloat64())))
			}
			w.Data, w.Make = data, nil
		}
		m.tensors = append(m.tensors, w)
	}
	return m
}

// The contract: random schedules of three sequences, against each alone in one prefill, eager and as graphs.
func TestAScheduleIsInvisibleOnTheGPU(t *testing.T) {
	d := gpu(t)
	for _, name := range tinyNames(t) {
		g, m, pool := tiny(t, d, name)
		rng := rand.New(rand.NewPCG(5, 6))
		const length = 90
		var texts [3][]int32
		var want [3][][]float32
		for i := range texts {
			for range length {
				texts[i] = append(texts[i], rng.Int32N(int32(g.Vocab)))
			}
			s := pool.NewSequence()
			want[i] = feed(t, d, m, pool, []*state.Sequence{s}, [][]int32{texts[i]})[0]
			s.Free()
		}
		for schedule := range 4 {
			d.graphs.eager = schedule == 0
			chunk := []int{5, 1, 7, 40}[schedule]
			sequences := []*state.Sequence{pool.NewSequence(), pool.NewSequence(), pool.NewSequence()}
			for {
				var now []*state.Sequence
				var tokens [][]int32
				var of []int
				for _, i := range rng.Perm(3) {
					at := sequences[i].Len()
					if n := min(length-at, rng.IntN(chunk+1)); n > 0 || at < length && chunk == 1 {
						now, of = append(now, sequences[i]), append(of, i)
						tokens = append(tokens, texts[i][at:at+max(1, n)])
					}
				}
				if len(now) == 0 {
					if sequences[0].Len()+sequences[1].Len()+sequences[2].Len() == 3*length {
						break
					}
					continue
				}
				at := make([]int, len(now))
				for j, s := range now {
					at[j] = s.Len()
				}
				for j, rows := range feed(t, d, m, pool, now, tokens) {
					for r, row := range rows {
						bitsEqual(t, fmt.Sprintf("%s, schedule %d: sequence %d, position %d", name, schedule, of[j], at[j]+r), row, want[of[j]][at[j]+r])
					}
				}
				if t.Failed() {
					return
				}
			}
			for _, s := range sequences {
				s.Free()
			}
		}
		d.graphs.eager = false
		if len(d.graphs.list) == 0 {
			t.Error("no step became a graph")
		}
	}
}

// A process of its own: its context is lost.
func TestAFaultOfTheGPUComesBackFromTheStepAndStays(t *testing.T) {
	const child = "MEMRA_CUDA_FAULT"
	d := gpu(t)
	if os.Getenv(child) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), child+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := d.Run(func(ops compute.Ops) compute.Tensor {
		s := ops.(*step)
		return compute.Tensor{Rows: 1, Width: 8, Mem: &buffer{home: s.at, operand: 0x10, tile: 8, scale: 1}}
	})
	mentions(t, err, "cuStreamSynchronize", "ILLEGAL_ADDRESS")
	_, err = d.Run(func(ops compute.Ops) compute.Tensor { return compute.Tensor{} })
	mentions(t, err, "failed earlier", "ILLEGAL_ADDRESS")
}

func TestOutOfMemoryOnTheGPUSaysTheNumbers(t *testing.T) {
	d := gpu(t)
	m, err := d.Memory()
	if err != nil {
		t.Fatal(err)
	}
	shape := compute.KVShape{Layers: 32, Heads: 8, HeadDim: 128}
	_, err = d.NewKV(shape, m.Total/shape.PageBytes()+1)
	mentions(t, err, "out of memory", "would fit", "are free")
	t.Logf("%d of %d bytes are free: %v", m.Free, m.Total, err)
	if m.Free == 0 {
		t.Error("no memory is free")
	}
}
