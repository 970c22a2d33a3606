package model_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
	"memra/quant"
	"memra/quantize"
)

// quantised is a tiny model in one of memra's mixes.
func quantised(t *testing.T, src model.Source, o quantize.Options) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quantised.gguf")
	if err := quantize.Write(t.Context(), src, path, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// memory is a model in memory.
type memory struct {
	model.Source
	tensors []gguf.Tensor
}

func (m memory) Tensors() []gguf.Tensor { return m.tensors }

// A quantised copy errs as much as one whose weights were moved at random by errors of the same size, within a factor of two.
//
// The size of a weight's error is known: |w - w'|, and where the matmul quantises its activations to 8 bits per 32 values, as
// much again as an error of the activation would do: a step of 1/127 of the block's largest value, three times its deviation,
// uniform, hence 3/127/sqrt(12) = 0.7 % of the value. So the test draws such models, float32, signs at random, and takes the
// worst of them: the bound knows how each family amplifies. Errors are those of all logits, root mean square.
func TestQuantisedCopiesErrAsTheirRoundingsDo(t *testing.T) {
	const draws, factor = 3, 2
	eachTiny(t, func(t *testing.T, n int, _ string, g *golden.Tiny) {
		full := model.GGUF(file(t, g.GGUF))
		for _, mix := range []string{"Q8_0", "Q4_K_M"} {
			small := quantised(t, full, quantize.Options{Mix: mix})
			got := deviation(t, model.GGUF(small), g)
			var bound float64
			for i := range draws {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				bound = max(bound, factor*deviation(t, moved(t, rng, full, small), g))
			}
			t.Logf("%s: logits err by %.2g of their size, bound %.2g", mix, got, bound)
			if !(got <= bound) {
				t.Errorf("%s: logits err by %.2g of their size, want at most %.2g", mix, got, bound)
			}
		}
	})
}

// A folder's blocks and scales, and the same in GGUF, are what float32 transformers decodes them to: written out as float32 they agree
// with it, and as they stand they err as 8-bit activations do.
func TestExpertsInMXFP4ErrAsTheirActivationsDo(t *testing.T) {
	g, err := golden.LoadTiny("testdata/tiny/gptoss-mxfp4")
	if err != nil {
		t.Fatal(err)
	}
	small := file(t, g.GGUF)
	full := quantised(t, model.GGUF(small), quantize.Options{Mix: "F32", Requantize: true})
	agree(t, model.GGUF(full), g)
	got, bound := deviation(t, model.GGUF(small), g), 0.0
	for i := range 3 {
		bound = max(bound, 2*deviation(t, moved(t, rand.New(rand.NewPCG(1, uint64(i))), model.GGUF(full), small), g))
	}
	t.Logf("logits err by %.2g of their size, bound %.2g", got, bound)
	if !(got <= bound) {
		t.Errorf("logits err by %.2g of their size, want at most %.2g", got, bound)
	}
}

// deviation is the root mean square of the recorded logits' errors, over that of the logits.
func deviation(t *testing.T, src model.Source, g *golden.Tiny) float64 {
	t.Helper()
	r := open(t, src, compute.KVF32)
	var errors, squares float64
	for _, p := range g.Prompts {
		r.sequence.Free()
		rows := r.feed(p.Tokens...)
		for i, position := range p.Positions {
			for j, want := range p.Logits[i] {
				d := float64(rows[position][j]) - float64(want)
				errors += d * d
				squares += float64(want) * float64(want)
			}
		}
	}
	return math.Sqrt(errors / squares)
}

// moved is the full model with its matrices moved by random errors of the size that the small one's roundings have.
func moved(t *testing.T, rng *rand.Rand, full model.Source, small *gguf.File) model.Source {
	t.Helper()
	m := memory{Source: full}
	for _, w := range full.Tensors() {
		s, ok := small.Tensor(w.Name)
		if !ok {
			t.Fatalf("the quantised copy lacks %s", w.Name)
		}
		if s.Type != w.Type {
			exact, rounded := dequantised(t, w), dequantised(t, *s)
			var squares float64
			for _, v := range exact {
				squares += float64(v) * float64(v)
			}
			size := 0.007 * math.Sqrt(squares/float64(len(exact)))
			data := make([]byte, 0, 4*len(exact))
			for i, v := range exact {
				e := float64(rounded[i]-v)*float64(1-2*rng.IntN(2)) + size*rng.NormFloat64()
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v+float32(e)))
			}
			w.Data, w.Type = data, gguf.F32
		}
		m.tensors = append(m.tensors, w)
	}
	return m
}

func dequantised(t *testing.T, w gguf.Tensor) []float32 {
	t.Helper()
	f, err := quant.For(w.Type)
	if err != nil {
		t.Fatal(err)
	}
	data, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	values, width := make([]float32, w.Values()), w.Shape[len(w.Shape)-1]
	size, err := f.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	for r := range len(values) / width {
		f.Dequantize(values[r*width:][:width], data[r*size:][:size])
	}
	return values
}
