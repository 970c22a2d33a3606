package quant

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// The mean squared error of every encoder, next to that of llama.cpp's program on the same weights, without importance. MEMRA_PEER
// names the folder of llama-quantize, MEMRA_MODELS that of SmolLM2; run with -v for the figures.
func TestEncodersErrNoMoreThanLlamaCpp(t *testing.T) {
	peer, models := os.Getenv("MEMRA_PEER"), os.Getenv("MEMRA_MODELS")
	if peer == "" || models == "" {
		t.Skip("MEMRA_PEER or MEMRA_MODELS is not set")
	}
	model, err := gguf.Open(filepath.Join(models, "SmolLM2-135M-Instruct.Q4_1.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	for _, weights := range []struct {
		name   string
		values []float32
	}{
		{"random normal", draws(1<<20, func(rng *rand.Rand) float64 { return rng.NormFloat64() })},
		{"Student t with four degrees", draws(1<<18, func(rng *rand.Rand) float64 {
			var square float64
			for range 4 {
				square += math.Pow(rng.NormFloat64(), 2)
			}
			return rng.NormFloat64() / math.Sqrt(square/4)
		})},
		{"Laplace", draws(1<<18, func(rng *rand.Rand) float64 { return rng.ExpFloat64() - rng.ExpFloat64() })},
		{"half normal", draws(1<<18, func(rng *rand.Rand) float64 { return math.Abs(rng.NormFloat64()) })},
		{"SmolLM2, dequantised", downMatrices(t, model)},
	} {
		t.Run(weights.name, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "f32.gguf")
			data := make([]byte, 4*len(weights.values))
			encodeF32(data, weights.values, nil)
			tensor := gguf.Tensor{Name: "blk.0.ffn_down.weight", Type: gguf.F32, Shape: []int{len(weights.values) / 1024, 1024}, Data: data}
			if err := gguf.Write(source, model.Meta, []gguf.Tensor{tensor}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"} {
				theirs := throughLlamaQuantize(t, peer, source, name)
				f, err := For(theirs.Type)
				if err != nil || f.Name != name {
					t.Fatalf("found the format %v, want %s: %v", theirs.Type, name, err)
				}
				data, back := make([]byte, len(theirs.Data)), make([]float32, len(weights.values))
				f.Quantize(data, weights.values, nil)
				f.Dequantize(back, data)
				ours := meanSquare(weights.values, back)
				f.Dequantize(back, theirs.Data)
				peer := meanSquare(weights.values, back)
				t.Logf("%-7s mean squared error %.4g, llama.cpp %.4g", name, ours, peer)
				if ours > 1.01*peer {
					t.Errorf("%s: found %.4f of llama.cpp's error, want at most 1.01", name, ours/peer)
				}
			}
		})
	}
}

// throughLlamaQuantize is what llama.cpp makes of the only tensor of a file.
func throughLlamaQuantize(t *testing.T, peer, source, format string) *gguf.Tensor {
	t.Helper()
	kind := map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}[format]
	if kind == "" {
		kind = format
	}
	path := filepath.Join(t.TempDir(), format+".gguf")
	if out, err := exec.Command(filepath.Join(peer, "llama-quantize"), "--pure", source, path, kind).CombinedOutput(); err != nil {
		t.Fatalf("llama-quantize %s: %v\n%s", kind, err, out)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &f.Tensors[0]
}

// draws is random numbers of the size that weights have.
func draws(n int, draw func(rng *rand.Rand) float64) []float32 {
	rng := rand.New(rand.NewPCG(11, 12))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(draw(rng) * 0.02)
	}
	return x
}

// downMatrices is the values of a few of a model's widest matrices, cut to whole rows of 1024.
func downMatrices(t *testing.T, model *gguf.File) []float32 {
	var all []float32
	for _, tensor := range model.Tensors {
		if !strings.HasSuffix(tensor.Name, "3.ffn_down.weight") {
			continue
		}
		f, err := For(tensor.Type)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, tensor.Values())
		f.Dequantize(x, tensor.Data)
		all = slices.Concat(all, x)
	}
	return all[:len(all)/1024*1024]
}

func meanSquare(x, y []float32) float64 {
	var sum float64
	for i := range x {
		sum += math.Pow(float64(x[i])-float64(y[i]), 2)
	}
	return sum / float64(len(x))
}
