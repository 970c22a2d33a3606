package memra

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"memra/gguf"
	"memra/internal/bounded"
)

// altered is a copy of a tiny model's file after a change.
func altered(t *testing.T, change func(meta *gguf.Metadata, tensors []gguf.Tensor)) string {
	t.Helper()
	f, err := gguf.Open(tinyModel(t, "llama-plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range f.Tensors {
		f.Tensors[i].Data = append([]byte{}, f.Tensors[i].Data...)
	}
	change(f.Meta, f.Tensors)
	path := filepath.Join(t.TempDir(), "altered.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVerifySaysWhatIsWrong(t *testing.T) {
	norm := func(tensors []gguf.Tensor) *gguf.Tensor {
		for i := range tensors {
			if tensors[i].Name == "output_norm.weight" {
				return &tensors[i]
			}
		}
		t.Fatal("found no output_norm.weight")
		return nil
	}
	set := func(at int, v float64) func(*gguf.Metadata, []gguf.Tensor) {
		return func(_ *gguf.Metadata, tensors []gguf.Tensor) {
			binary.LittleEndian.PutUint32(norm(tensors).Data[4*at:], math.Float32bits(float32(v)))
		}
	}
	template := func(text string) func(*gguf.Metadata, []gguf.Tensor) {
		return func(meta *gguf.Metadata, _ []gguf.Tensor) { meta.Set(chatTemplate, text) }
	}
	for _, c := range []struct {
		name   string
		change func(*gguf.Metadata, []gguf.Tensor)
		want   []string // a fault each
	}{
		{"nothing", func(*gguf.Metadata, []gguf.Tensor) {}, nil},
		{"a value that is NaN", set(5, math.NaN()), []string{"tensor output_norm.weight: 1 of 64 values are NaN or infinite, the first is value 5"}},
		{"an infinity", set(0, math.Inf(-1)), []string{"the first is value 0"}},
		{"a shape of another model", func(_ *gguf.Metadata, tensors []gguf.Tensor) {
			n := norm(tensors)
			n.Shape, n.Data = []int{32}, n.Data[:128]
		}, []string{"tensor output_norm.weight: shape [32], want [64]"}},
		{"a family of another world", func(meta *gguf.Metadata, _ []gguf.Tensor) { meta.Set("general.architecture", "hal") }, []string{`family "hal" is not supported`}},
		{"a tokenizer of no kind", func(meta *gguf.Metadata, _ []gguf.Tensor) { meta.Set("tokenizer.ggml.model", "morse") }, []string{"morse"}},
		{"a template that is none", template("{% for %}"), []string{"line 1"}},
		{"a template that fails", template("{{ messages[0].content.nope.nope }}"), []string{"a question: "}},
		{"a template that refuses all but a question", template("{% if messages|length > 1 %}{{ raise_exception('one at a time') }}{% endif %}"), nil},
		{"several things", func(meta *gguf.Metadata, tensors []gguf.Tensor) {
			set(5, math.NaN())(meta, tensors)
			template("{% for %}")(meta, tensors)
		}, []string{"line 1", "NaN"}},
	} {
		v, err := Verify(t.Context(), altered(t, c.change), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(v.Faults) != len(c.want) {
			t.Errorf("%s: found %q, want %d faults", c.name, v.Faults, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(v.Faults[i], want) {
				t.Errorf("%s: found %q, want %q", c.name, v.Faults[i], want)
			}
		}
	}
	if v, err := Verify(t.Context(), altered(t, template("{% if messages|length > 1 %}{{ raise_exception('one at a time') }}{% endif %}")), nil); err != nil ||
		len(v.Template) != len(trials) || v.Template[0].Refused != "" || !strings.Contains(v.Template[1].Refused, "one at a time") {
		t.Errorf("found the trials %+v, %v, want all but the first to be refused", v.Template, err)
	}
}

func TestSettingsThatMakeNoSenseAreFaultsAndNoPanic(t *testing.T) {
	f, err := gguf.Open(tinyModel(t, "llama-plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key := range f.Meta.All() {
		if n, err := f.Meta.Int(key); err != nil || n == 0 || !strings.HasPrefix(key, "llama.") || strings.HasSuffix(key, "value_length") { // which shapes say too
			continue
		}
		for _, value := range []any{uint32(0), int32(-1), uint32(1 << 31), uint64(1 << 62), "many", []int32{}, float32(0.5)} {
			path := altered(t, func(meta *gguf.Metadata, _ []gguf.Tensor) { meta.Set(key, value) })
			var v *Verified
			bounded.Read(t, 1<<18, func() { v, err = Verify(t.Context(), path, nil) })
			if err != nil {
				t.Fatalf("%s %v: %v", key, value, err)
			}
			if len(v.Faults) == 0 && !strings.HasSuffix(key, "context_length") { // which bounds requests, not the model
				t.Errorf("%s %v: no fault", key, value)
			}
		}
	}
}

func TestTheHashIsOfTheWeightsAlone(t *testing.T) {
	hash := func(path string) string {
		t.Helper()
		var mu sync.Mutex
		done, total := 0, 0
		v, err := Verify(t.Context(), path, func(d, of int) {
			mu.Lock()
			defer mu.Unlock()
			done, total = max(done, d), of
		})
		if err != nil || len(v.SHA256) != 64 {
			t.Fatalf("%s: hash %q, %v", path, v.SHA256, err)
		}
		if done != total || total == 0 {
			t.Errorf("%s: progress ends at %d of %d", path, done, total)
		}
		return v.SHA256
	}
	folder, dir := tinyFolder(t, "llama-plain"), t.TempDir()
	whole, merged := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "merged.gguf")
	if err := Convert(t.Context(), folder, whole, ConvertOptions{}); err != nil {
		t.Fatal(err)
	}
	want := hash(whole)
	files, err := Split(t.Context(), whole, filepath.Join(dir, "m"), SplitOptions{MaxTensors: 9})
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v, %v", files, err)
	}
	if err := Merge(t.Context(), files[0].Path, merged, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, files[1].Path, merged} {
		if got := hash(path); got != want {
			t.Errorf("%s has the hash %s, want %s", path, got, want)
		}
	}
	file := altered(t, func(*gguf.Metadata, []gguf.Tensor) {})
	if hash(file) != hash(altered(t, func(meta *gguf.Metadata, _ []gguf.Tensor) { meta.Set("general.name", "x") })) {
		t.Error("metadata changes the hash")
	}
	if hash(file) == hash(altered(t, func(_ *gguf.Metadata, tensors []gguf.Tensor) { tensors[3].Data[7] ^= 1 })) {
		t.Error("a bit of a weight does not change the hash")
	}
	if hash(file) == hash(altered(t, func(_ *gguf.Metadata, tensors []gguf.Tensor) {
		tensors[3].Name, tensors[4].Name = tensors[4].Name, tensors[3].Name
	})) {
		t.Error("two weights that change places do not change the hash")
	}
}
