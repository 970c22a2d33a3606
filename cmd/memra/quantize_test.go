package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra"
	"memra/internal/golden"
)

func TestQuantizeWritesAFileThatRuns(t *testing.T) {
	src, dst := baseModel(t), filepath.Join(t.TempDir(), "small.gguf")
	out := succeed(t, "", "quantize", src, dst, "q8_0")
	if !strings.Contains(out, dst+": ") || !strings.Contains(out, "Q8_0") {
		t.Errorf("found %q, want the file and its types", out)
	}
	succeed(t, "", "run", "-m", dst, "-n", "4", "--raw", "hello")
}

func TestQuantizeSaysWhatItWouldDo(t *testing.T) {
	src, dst := baseModel(t), filepath.Join(t.TempDir(), "small.gguf")
	var result memra.Quantized
	if err := json.Unmarshal([]byte(succeed(t, "", "quantize", src, dst, "Q4_K_M", "--tensor-type", "attn_v=q8_0", "--dry-run", "-o", "json")), &result); err != nil {
		t.Fatal(err)
	}
	for _, tensor := range result.Tensors {
		if strings.Contains(tensor.Name, "attn_v.weight") && tensor.Type != "Q8_0" {
			t.Errorf("found %+v, want Q8_0", tensor)
		}
	}
	if result.Bytes >= result.FromBytes || len(result.Tensors) == 0 {
		t.Errorf("found %d bytes of %d, in %d tensors", result.Bytes, result.FromBytes, len(result.Tensors))
	}
	if text := succeed(t, "", "quantize", src, dst, "Q4_K_M", "--dry-run"); !strings.Contains(text, ", for Q6_K does not fit") {
		t.Errorf("found %q, want it to say what does not fit", text)
	}
	if _, err := os.Stat(dst); err == nil {
		t.Error("found a file written")
	}
}

func TestQuantizeRefuses(t *testing.T) {
	src := baseModel(t)
	dst := filepath.Join(t.TempDir(), "small.gguf")
	for _, c := range []struct {
		name   string
		status int
		args   []string
		want   string
	}{
		{"two arguments", 2, []string{src, dst}, "want a source, a file to write, and a type"},
		{"a type that is none", 1, []string{src, dst, "Q4"}, "want one of F32, BF16"},
		{"its source as what it writes", 1, []string{src, src, "Q8_0"}, "is a file of the source"},
		{"importance that is not there", 1, []string{src, dst, "Q8_0", "--imatrix", dst}, "no such file"},
		{"a tensor type without a type", 1, []string{src, dst, "Q8_0", "--tensor-type", "attn_v"}, "want NAME=TYPE"},
	} {
		o := invoke(t, "", append([]string{"quantize"}, c.args...)...)
		if o.status != c.status || !strings.Contains(o.err, c.want) || o.out != "" {
			t.Errorf("%s: found status %d, %q, want %d and %q", c.name, o.status, o.err, c.status, c.want)
		}
	}
}

func TestQuantizeReadsAFolder(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	if err := golden.Folder("../../model/testdata/tiny/llama-plain.zip", folder); err != nil {
		t.Fatal(err)
	}
	whole, viaFile, direct := filepath.Join(dir, "f32.gguf"), filepath.Join(dir, "via.gguf"), filepath.Join(dir, "direct.gguf")
	succeed(t, "", "convert", folder, whole)
	succeed(t, "", "quantize", whole, viaFile, "Q4_K_M")
	succeed(t, "", "quantize", folder, direct, "Q4_K_M")
	a, errA := os.ReadFile(viaFile)
	b, errB := os.ReadFile(direct)
	if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
		t.Errorf("%d bytes (%v) from the folder's conversion, %d (%v) from the folder: want the same", len(a), errA, len(b), errB)
	}
	o := invoke(t, "", "quantize", folder, filepath.Join(folder, "config.json"), "Q8_0")
	if o.status != 1 || !strings.Contains(o.err, "whose files are not to be replaced") {
		t.Errorf("onto config.json: status %d, %q", o.status, o.err)
	}
}
