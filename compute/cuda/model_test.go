package cuda

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
	"memra/state"
)

const tinyModels = "../../model/testdata/tiny"

// tiny opens a tiny model.
func tiny(t *testing.T, d *Device, name string) (*golden.Tiny, *model.Model, *state.Pool) {
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
	m, err := model.Open(model.GGUF(f), d)
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
func feed(t *testing.T, d *Device, m *model.Model, pool *state.Pool, sequences []*state.Sequence, tokens [][]int32) [][][]float32 {
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

// Activations are rounded to f16 a dozen times a layer, 2^-12 each at random, and the models' random weights amplify: rounding
// keys and values alone, on the CPU, moves logits by up to 2e-3.
func TestFamiliesAgreeWithTransformersOnTheGPU(t *testing.T) {
	d := gpu(t)
	for _, name := range tinyNames(t) {
		t.Run(name, func(t *testing.T) {
			g, m, pool := tiny(t, d, name)
			for _, p := range g.Prompts {
				s := pool.NewSequence()
				rows := feed(t, d, m, pool, []*state.Sequence{s}, [][]int32{p.Tokens})[0]
				for i, position := range p.Positions {
					want := make([]float64, len(p.Logits[i]))
					for j, v := range p.Logits[i] {
						want[j] = float64(v)
					}
					closeTo(t, fmt.Sprintf("%q, position %d", p.Text, position), rows[position], want, 1e-2)
				}
				s.Free()
			}
		})
	}
}

// The contract: random schedules of three sequences, against each alone in one prefill, eager and as graphs.
func TestAScheduleIsInvisibleOnTheGPU(t *testing.T) {
	d := gpu(t)
	for _, name := range []string{"llama-grouped", "gemma3-plain"} {
		g, m, pool := tiny(t, d, name)
		rng := rand.New(rand.NewPCG(5, 6))
		const length = 120
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
		for schedule := range 12 {
			d.graphs.eager = schedule%3 == 0
			chunk := []int{1, 1, 5, 40}[schedule%4]
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
