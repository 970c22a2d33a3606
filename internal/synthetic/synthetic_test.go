package synthetic

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/compute/cpu"
	"memra/gguf"
	"memra/model"
	"memra/quant"
)

// Parameters as their authors or model files count them, of the text model alone.
func TestShapesHaveTheirModelsParameters(t *testing.T) {
	for name, want := range map[string]int{
		"Llama-3.1-8B": 8030261248, "Gemma-3-12B": 11766034176, "Gemma-3-27B": 27009346304, "SmolLM2-135M": 134515008, "Gemma-3-270M": 268098176,
		"Gemma-4-E4B": 7463013674, "Gemma-4-12B": 11907350576, "Gemma-4-26B-A4B": 25233142046, "Gemma-4-31B": 30697345596,
		"Qwen3.5-9B": 8953803264, "Qwen3.6-27B": 26895998464, "Qwen3.6-35B-A3B": 34660610688, "gpt-oss-20b": 20914757184, "gpt-oss-120b": 116829156672,
	} {
		m, err := New(name, "Q8_0")
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Parameters(); got != want {
			t.Errorf("%s: %d parameters, want %d", name, got, want)
		}
	}
}

// The sizes of published files, less their header.
func TestFormatsHaveTheirFilesSizes(t *testing.T) {
	for _, c := range []struct {
		name, format string
		bits         float64 // a parameter
	}{
		{"Llama-3.1-8B", "Q8_0", 8.50}, {"Llama-3.1-8B", "Q4_K_M", 4.89}, {"Llama-3.1-8B", "BF16", 16.0}, {"llama-3.1-8b", "q5_k_m", 5.70},
	} {
		m, err := New(c.name, c.format)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(m.Bytes()) * 8 / float64(m.Parameters()); math.Abs(got-c.bits) > 0.015 {
			t.Errorf("%s: %.3f bits a parameter, want %.2f", m.Name(), got, c.bits)
		}
		if m.Host() > m.Bytes()/6 {
			t.Errorf("%s: the host holds %d of %d bytes", m.Name(), m.Host(), m.Bytes())
		}
	}
}

func TestTheMixIsLlamaCppsOnARealFile(t *testing.T) {
	folder := os.Getenv("MEMRA_MODELS")
	if folder == "" {
		t.Skip("set MEMRA_MODELS to the folder that tools/models fills")
	}
	f, err := gguf.Open(filepath.Join(folder, "gemma-3-270m-q4_k_m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := New("Gemma-3-270M", "Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.tensors) != len(f.Tensors) {
		t.Errorf("%d tensors, the file has %d", len(m.tensors), len(f.Tensors))
	}
	for _, got := range m.tensors {
		want, ok := f.Tensor(got.Name)
		if !ok || got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
			t.Errorf("%s: %v %v, the file has %+v", got.Name, got.Type, got.Shape, want)
		}
	}
	for key, value := range f.Meta.All() {
		if got, ok := m.Metadata().Get(key); ok && got != value && key != "general.name" {
			t.Errorf("%s: %v, the file has %v", key, got, value)
		}
	}
}

func TestWeightsAreNormalValuesInEveryFormat(t *testing.T) {
	for i := range formats {
		m, err := New("SmolLM2-135M", formats[i].name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tensor := range m.Tensors()[:12] {
			f, err := quant.For(tensor.Type)
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, tensor.Values())
			f.Dequantize(values, tensor.Data)
			var sum, squares float64
			for _, v := range values {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			n := float64(len(values))
			mean, deviation := sum/n, math.Sqrt(squares/n-sum/n*sum/n)
			wantMean, wantDeviation := 0.0, 1/math.Sqrt(576)
			if len(tensor.Shape) == 1 {
				wantMean, wantDeviation = 1, 0.02
			}
			if math.Abs(mean-wantMean) > 0.003 || math.Abs(deviation/wantDeviation-1) > 0.15 {
				t.Errorf("%s of %s: mean %.4f and deviation %.4f, want %.4f and %.4f", tensor.Name, m.Name(), mean, deviation, wantMean, wantDeviation)
			}
		}
	}
}

func TestReleasedWeightsAreMadeAgainAlike(t *testing.T) {
	m, err := New("SmolLM2-135M", "Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(m.Tensors()[5].Data)
	m.Release()
	if m.tensors[5].Data != nil {
		t.Error("released weights are still there")
	}
	if !slices.Equal(before, m.Tensors()[5].Data) {
		t.Error("weights made again differ")
	}
}

func TestEveryFamilyBindsItsShapes(t *testing.T) {
	d, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"SmolLM2-135M", "Gemma-3-270M"} {
		m, err := New(name, "Q4_K_M")
		if err != nil {
			t.Fatal(err)
		}
		bound, err := model.Open(m, d)
		if err != nil {
			t.Fatal(err)
		}
		if bound.Vocab != m.shape.vocab || bound.Context != m.shape.context {
			t.Errorf("%s: vocabulary %d, context %d", name, bound.Vocab, bound.Context)
		}
	}
}

// bare is a model without weights: some shapes are larger than a test's machine.
type bare struct{ *Model }

func (b bare) Tensors() []gguf.Tensor { return b.tensors }

func TestLargeShapesAreOnesOfTheirFamilies(t *testing.T) {
	for _, name := range []string{"Llama-3.1-8B", "Gemma-3-12B", "Gemma-3-27B", "Gemma-4-E4B", "Gemma-4-12B", "Gemma-4-26B-A4B", "Gemma-4-31B"} {
		m, err := New(name, "Q4_K_M")
		if err != nil {
			t.Fatal(err)
		}
		if vocab, err := model.Check(bare{m}); err != nil || vocab != m.shape.vocab {
			t.Errorf("%s: vocabulary %d, want %d: %v", name, vocab, m.shape.vocab, err)
		}
	}
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	for _, c := range []struct{ name, format, want string }{
		{"GPT-5", "Q8_0", "Llama-3.1-8B, Gemma-3-12B"}, {"Gemma-3-12B", "Q9", "Q8_0, Q4_K_M"},
	} {
		if _, err := New(c.name, c.format); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v, want an error with %q", c.name, c.format, err, c.want)
		}
	}
}
