package hf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
	"memra/quant"
	"memra/safetensors"
)

// The truths are what torch, compared by compressed-tensors and transformers, makes of the same tensors (tools/oracle/hf.py).
func TestQuantisedWeightsMeanWhatTheirMakersSay(t *testing.T) {
	dir := t.TempDir()
	if err := golden.Folder("testdata/quantised.zip", dir); err != nil {
		t.Fatal(err)
	}
	file, err := safetensors.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth map[string]struct {
		Shape  []int
		First  []float32
		SHA256 string
	}
	if err := json.Unmarshal(data, &truth); err != nil {
		t.Fatal(err)
	}
	types := map[string]gguf.Type{"block": gguf.F32, "block_bf16": gguf.F32, "block_powers": gguf.BF16, "tensor": gguf.F32, "scalar": gguf.F32,
		"channel": gguf.F32, "int8": gguf.F32, "nvfp4_ct": gguf.NVFP4, "nvfp4_opt": gguf.NVFP4, "nvfp4_one": gguf.NVFP4, "mxfp4_ct": gguf.MXFP4,
		"experts.down_proj": gguf.MXFP4}
	var faults []error
	weights := readWeights(file, object{path: "config.json", faults: &faults}, func(string) bool { return false })
	if len(faults) > 0 || len(weights) != len(truth) || len(types) != len(truth) {
		t.Fatalf("%d weights, want %d: %v", len(weights), len(truth), faults)
	}
	for _, w := range weights {
		name := strings.TrimSuffix(w.Name, ".weight")
		want := truth[name]
		if !slices.Equal(w.Shape, want.Shape) || w.Type != types[name] {
			t.Errorf("%s: %s %v, want %s %v", name, w.Type, w.Shape, types[name], want.Shape)
			continue
		}
		v, err := vector(w)
		if err != nil {
			t.Fatal(err)
		}
		for i := range v {
			v[i] = v[i]*w.factor + 0 // GGUF has no -0 of four bits
		}
		bits := make([]byte, 4*len(v))
		f, _ := quant.For(gguf.F32)
		f.Quantize(bits, v, nil)
		if sum := sha256.Sum256(bits); hex.EncodeToString(sum[:]) != want.SHA256 {
			t.Errorf("%s: the values differ, the first are %v, want %v", name, v[:8], want.First)
		}
	}
}

func TestCodesOfEightBitsAreWhatTheirStandardSays(t *testing.T) {
	for _, c := range []struct {
		table *[256]float32
		code  byte
		want  float32
	}{
		{&e4m3, 0x00, 0}, {&e4m3, 0x01, 1.0 / 512}, {&e4m3, 0x07, 7.0 / 512}, {&e4m3, 0x08, 1.0 / 64}, {&e4m3, 0x38, 1}, {&e4m3, 0x7e, 448}, {&e4m3, 0xfe, -448},
		{&e5m2, 0x01, 1.0 / 65536}, {&e5m2, 0x3c, 1}, {&e5m2, 0x7b, 57344}, {&e5m2, 0xbc, -1}, {&e5m2, 0x7c, float32(math.Inf(1))},
		{&int8s, 0x80, -128}, {&int8s, 0x7f, 127},
	} {
		if got := c.table[c.code]; got != c.want {
			t.Errorf("code %#x is %v, want %v", c.code, got, c.want)
		}
	}
	for _, code := range []byte{0x7f, 0xff} {
		if x := e4m3[code]; x == x {
			t.Errorf("e4m3 code %#x is %v, want NaN", code, x)
		}
	}
}

func TestCodesWithoutTheirScalesAreRefused(t *testing.T) {
	u8 := func(name string, dtype safetensors.DType, shape ...int) safetensors.Tensor {
		n := dtype.Bits()
		for _, d := range shape {
			n *= d
		}
		return safetensors.Tensor{Name: name, DType: dtype, Shape: shape, Data: make([]byte, n/8)}
	}
	const f8, e4 = safetensors.F8E4M3, safetensors.F8E4M3
	for _, c := range []struct {
		name    string
		tensors []safetensors.Tensor
		config  map[string]any
		want    string
	}{
		{"FP8 alone", []safetensors.Tensor{u8("a.weight", f8, 2, 32)}, nil, "a.weight: found F8_E4M3 [2 32], want a float tensor, or codes with the scales"},
		{"a scale alone", []safetensors.Tensor{u8("a.weight_scale", "F32", 1)}, nil, "a.weight_scale: found F32 [1]"},
		{"integers", []safetensors.Tensor{u8("a.qweight", "I32", 4, 4)}, nil, "a.qweight: found I32"},
		{"scales of the wrong number", []safetensors.Tensor{u8("a.weight", f8, 4, 32), u8("a.weight_scale", "F32", 3)}, nil, "scales have shape [3], want one, [4 1] for one a row, or [1 1] for blocks of [128 128]"},
		{"scales of codes", []safetensors.Tensor{u8("a.weight", f8, 4, 32), u8("a.weight_scale", "I8", 4)}, nil, "a.weight_scale: found I8"},
		{"a vector of codes", []safetensors.Tensor{u8("a.weight", f8, 4), u8("a.weight_scale", "F32", 1)}, nil, "shape [4], want a matrix"},
		{"NVFP4 of half a block", []safetensors.Tensor{u8("a.weight", "U8", 2, 16), u8("a.weight_scale", e4, 2, 2)}, nil, "rows of 32 codes, want a multiple of 64"},
		{"NVFP4 with the scales of MXFP4", []safetensors.Tensor{u8("a.weight", "U8", 2, 32), u8("a.weight_scale", e4, 2, 2)}, nil, "scales have shape [2 2], want [2 4]"},
		{"NVFP4 with a factor of zero", []safetensors.Tensor{u8("a.weight", "U8", 2, 32), u8("a.weight_scale", e4, 2, 4), u8("a.weight_scale_2", "F32")}, nil, "a.weight_scale_2: the factor is 0, want a positive"},
		{"NVFP4 with two factors", []safetensors.Tensor{u8("a.weight", "U8", 2, 32), u8("a.weight_scale", e4, 2, 4), u8("a.weight_scale_2", "F32", 2)}, nil, "found 2 values, want one"},
		{"MXFP4 of half a block", []safetensors.Tensor{u8("a.weight_packed", "U8", 2, 8), u8("a.weight_scale", "U8", 2, 1)}, nil, "rows of 16 codes, want a multiple of 32"},
		{"MXFP4 with too few scales", []safetensors.Tensor{u8("a.weight_packed", "U8", 2, 32), u8("a.weight_scale", "U8", 2, 1)}, nil, "scales have shape [2 1], want [2 2]"},
		{"gpt-oss without scales", []safetensors.Tensor{u8("a_blocks", "U8", 1, 2, 1, 16)}, nil, "blocks without scales"},
		{"gpt-oss with blocks of 8", []safetensors.Tensor{u8("a_blocks", "U8", 1, 2, 1, 8), u8("a_scales", "U8", 1, 2, 1)}, nil, "want [experts rows blocks 16]"},
		{"floats with scales", []safetensors.Tensor{u8("a.weight", "BF16", 2, 32), u8("a.weight_scale", "F32", 1)}, nil, "found BF16 with scales of F32"},
		{"another method", nil, map[string]any{"quant_method": "gptq"}, `quant_method: found "gptq", want fp8, fbgemm_fp8, compressed-tensors, modelopt or mxfp4`},
		{"blocks of nothing", nil, map[string]any{"weight_block_size": []any{number(0), number(128)}}, "weight_block_size: found [0 128]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			if err := safetensors.Write(path, nil, c.tensors); err != nil {
				t.Fatal(err)
			}
			file, err := safetensors.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var faults []error
			config := object{path: "config.json", faults: &faults}
			if c.config != nil {
				config.value = map[string]any{"quantization_config": c.config}
			}
			readWeights(file, config, func(string) bool { return false })
			for _, err := range faults {
				if strings.Contains(err.Error(), c.want) {
					return
				}
			}
			t.Errorf("faults %v, want one with %q", faults, c.want)
		})
	}
}

func TestScalesThatAreNoNumbersAreFoundWhenTheWeightIsMade(t *testing.T) {
	for _, scale := range []byte{0x7f, 0x80, 0xb8} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := safetensors.Write(path, nil, []safetensors.Tensor{
			{Name: "a.weight", DType: safetensors.U8, Shape: []int{1, 32}, Data: make([]byte, 32)},
			{Name: "a.weight_scale", DType: safetensors.F8E4M3, Shape: []int{1, 4}, Data: []byte{0x38, 0x38, scale, 0x38}},
		}); err != nil {
			t.Fatal(err)
		}
		file, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var faults []error
		w := readWeights(file, object{faults: &faults}, func(string) bool { return false })
		if len(w) != 1 {
			t.Fatal(faults)
		}
		if _, err := w[0].Bytes(); err == nil || !strings.Contains(err.Error(), "a.weight: a scale is the byte") {
			t.Errorf("scale %#x: %v", scale, err)
		}
	}
}
