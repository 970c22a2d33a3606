package safetensors

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"memra/internal/golden"
)

// unzip brings a zip of tools/oracle/hf.py into a folder.
func unzip(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	if err := golden.Folder(path, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The files were written by safetensors itself, from torch.
func TestFilesOfTheReferenceAreRead(t *testing.T) {
	f, err := OpenFolder(unzip(t, "../hf/testdata/quantised.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata["format"] != "pt" {
		t.Errorf("metadata %v, want format: pt", f.Metadata)
	}
	for _, want := range []struct {
		name  string
		dtype DType
		shape []int
	}{
		{"block.weight", F8E4M3, []int{136, 192}},
		{"block_bf16.weight_scale_inv", BF16, []int{2, 2}},
		{"scalar.weight", F8E5M2, []int{136, 192}},
		{"scalar.weight_scale", F32, []int{}},
		{"int8.weight", I8, []int{136, 192}},
		{"nvfp4_opt.weight", U8, []int{136, 96}},
		{"experts.down_proj_blocks", U8, []int{2, 64, 4, 16}},
	} {
		got, ok := f.Tensor(want.name)
		if !ok || got.DType != want.dtype || !slices.Equal(got.Shape, want.shape) {
			t.Errorf("%s: %v, want %s %v", want.name, got, want.dtype, want.shape)
		}
	}
}

func TestShardsAreOneModel(t *testing.T) {
	dir := unzip(t, "../model/testdata/tiny/llama-grouped.zip")
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Metadata struct {
			TotalSize int `json:"total_size"`
		}
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	size, files := 0, map[string]bool{}
	for i := range f.Tensors {
		size += len(f.Tensors[i].Data)
		files[f.Tensors[i].File] = true
	}
	if len(f.Tensors) != len(index.WeightMap) || size != index.Metadata.TotalSize || len(files) < 3 {
		t.Errorf("%d tensors of %d bytes in %d files, want %d of %d in at least 3", len(f.Tensors), size, len(files), len(index.WeightMap), index.Metadata.TotalSize)
	}
	if err := os.Remove(filepath.Join(dir, indexName)); err != nil {
		t.Fatal(err)
	}
	bare, err := OpenFolder(dir)
	if err != nil {
		t.Fatalf("without the index: %v", err)
	}
	defer bare.Close()
	if len(bare.Tensors) != len(f.Tensors) {
		t.Errorf("without the index %d tensors, want %d", len(bare.Tensors), len(f.Tensors))
	}
}

func sample() (map[string]string, []Tensor) {
	return map[string]string{"format": "pt", "ünï\"": "<&>"}, []Tensor{
		{Name: "a", DType: F32, Shape: []int{2, 3}, Data: bytes.Repeat([]byte{1, 2, 3, 4}, 6)},
		{Name: "scalar", DType: F16, Shape: []int{}, Data: []byte{5, 6}},
		{Name: "empty", DType: BF16, Shape: []int{0, 1 << 40}, Data: nil},
		{Name: "nibbles", DType: F4, Shape: []int{2, 3}, Data: []byte{7, 8, 9}},
		{Name: "ünï\"\\", DType: F8E4M3, Shape: []int{1}, Data: []byte{10}},
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	metadata, tensors := sample()
	path := filepath.Join(t.TempDir(), "f.safetensors")
	if err := Write(path, metadata, tensors); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(f.Metadata, metadata) || len(f.Tensors) != len(tensors) {
		t.Fatalf("metadata %v, %d tensors", f.Metadata, len(f.Tensors))
	}
	for i, want := range tensors {
		got := f.Tensors[i]
		if got.Name != want.Name || got.DType != want.DType || !reflect.DeepEqual(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) || got.File != path {
			t.Errorf("tensor %d: %v, want %v", i, got, want)
		}
	}
	f.Tensors[0].Drop(0, 24)
	f.Release()
	if f.Tensors[0].Data[0] != 1 {
		t.Error("data that was released reads otherwise")
	}
	if err := f.Close(); err != nil || f.Tensors[0].Data != nil {
		t.Errorf("closed: %v, data %v", err, f.Tensors[0].Data)
	}
}

func TestWriteRefusesWhatNoReaderWouldTake(t *testing.T) {
	one := Tensor{Name: "a", DType: F16, Shape: []int{2}, Data: make([]byte, 4)}
	for _, c := range []struct {
		name   string
		change func(*Tensor)
		want   string
	}{
		{"too little data", func(t *Tensor) { t.Data = t.Data[:3] }, "has 3 bytes of data, want 4 for F16 [2]"},
		{"an unknown type", func(t *Tensor) { t.DType = "F12" }, `found "F12"`},
		{"half a byte", func(t *Tensor) { t.DType, t.Shape = F4, []int{3} }, "has 12 bits, want whole bytes"},
		{"a negative dimension", func(t *Tensor) { t.Shape = []int{-2} }, "below zero"},
		{"the name of the metadata", func(t *Tensor) { t.Name = metadataKey }, "the name is taken"},
		{"nine dimensions", func(t *Tensor) { t.Shape = []int{1, 1, 1, 1, 1, 1, 1, 1, 2} }, "more than 8 dimensions"},
	} {
		bad := one
		c.change(&bad)
		dir := t.TempDir()
		err := Write(filepath.Join(dir, "f.safetensors"), nil, []Tensor{bad})
		wantError(t, c.name, err, c.want, "f.safetensors")
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: a write that failed leaves %s", c.name, left[0].Name())
		}
	}
}
