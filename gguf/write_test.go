package gguf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sample returns metadata of every type, and tensors of several shapes.
func sample() (*Metadata, []Tensor) {
	meta := new(Metadata)
	for _, v := range oracleValues {
		meta.Set(v.key, v.value)
	}
	meta.Set("", "an empty key")
	meta.Set("deep", []any{[]any{[]any{[]string{"x"}}}, []any{}})
	return meta, []Tensor{
		{Name: "matrix", Type: Q4_K, Shape: []int{3, 512}, Data: bytes.Repeat([]byte{1, 2, 3}, 288)},
		{Name: "empty", Type: F16, Shape: []int{0, 7}},
		{Name: "scalar", Type: F32, Shape: []int{}, Data: []byte{1, 2, 3, 4}},
		{Name: "odd", Type: I8, Shape: []int{2, 1, 5, 1}, Data: []byte("0123456789")},
	}
}

func TestWhatIsWrittenReadsBackTheSame(t *testing.T) {
	for _, alignment := range []uint32{0, 1, 8, 32, 64, 4096} {
		meta, tensors := sample()
		want := 32
		if alignment > 0 {
			meta.Set(alignmentKey, alignment)
			want = int(alignment)
		}
		path := filepath.Join(t.TempDir(), "w.gguf")
		if err := Write(path, meta, tensors); err != nil {
			t.Fatal(err)
		}
		f := open(t, path)
		if f.Alignment != want || f.Version != 3 || !reflect.DeepEqual(f.Meta.keys, meta.keys) || !reflect.DeepEqual(f.Meta.value, meta.value) {
			t.Errorf("alignment %d: found alignment %d and the metadata %v", alignment, f.Alignment, f.Meta.value)
		}
		for i, want := range tensors {
			got := f.Tensors[i]
			if got.Name != want.Name || got.Type != want.Type || !reflect.DeepEqual(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("alignment %d: tensor %d: found %v, want %v", alignment, i, got, want)
			}
		}
		var again bytes.Buffer
		if err := Encode(&again, f.Meta, f.Tensors); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, again.Bytes()) {
			t.Errorf("alignment %d: written again, the bytes differ (%v)", alignment, err)
		}
	}
}

// The oracle's writer and ours agree on every byte, so whatever reads its files reads ours.
func TestWritesTheBytesThatTheOracleWrites(t *testing.T) {
	want, err := os.ReadFile("testdata/values.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, "testdata/values.gguf")
	var got bytes.Buffer
	if err := Encode(&got, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("found %d bytes that differ from the oracle's %d", got.Len(), len(want))
	}
}

func TestWhatCannotBeReadIsNotWritten(t *testing.T) {
	good := Tensor{Name: "t", Type: F32, Shape: []int{2}, Data: make([]byte, 8)}
	for _, c := range []struct {
		name    string
		key     string
		value   any
		tensors []Tensor
		want    []string
	}{
		{"a Go int", "k", 7, nil, []string{`key "k"`, "Go type int"}},
		{"an array of numbers and not of arrays", "k", []any{uint8(1)}, nil, []string{`key "k"`, "element 0 is a uint8"}},
		{"arrays nested too deep", "k", []any{[]any{[]any{[]any{[]any{}}}}}, nil, []string{`key "k"`, "nested more than 4"}},
		{"an alignment of 3", alignmentKey, uint32(3), nil, []string{alignmentKey, "power of two"}},
		{"bytes that do not fit the shape", "k", true, []Tensor{{Name: "x", Type: F32, Shape: []int{3}, Data: make([]byte, 8)}},
			[]string{`tensor 0 "x"`, "8 bytes of data, want 12"}},
		{"half a block", "k", true, []Tensor{{Name: "x", Type: Q8_0, Shape: []int{16}, Data: make([]byte, 17)}}, []string{`tensor 0 "x"`, "multiple of 32"}},
		{"five dimensions", "k", true, []Tensor{{Name: "x", Type: I8, Shape: []int{1, 1, 1, 1, 1}, Data: make([]byte, 1)}},
			[]string{`tensor 0 "x"`, "5 dimensions, want at most 4"}},
		{"a negative dimension", "k", true, []Tensor{{Name: "x", Type: I8, Shape: []int{-1, -1}, Data: make([]byte, 1)}}, []string{`tensor 0 "x"`, "below zero"}},
		{"a type that is not known", "k", true, []Tensor{{Name: "x", Type: 99, Shape: []int{1}, Data: make([]byte, 1)}}, []string{`tensor 0 "x"`, "type 99"}},
		{"a name twice", "k", true, []Tensor{good, good}, []string{`tensor 1 "t"`, "the same name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "w.gguf")
			if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			meta := new(Metadata)
			meta.Set(c.key, c.value)
			err := Write(path, meta, c.tensors)
			for _, want := range append(c.want, path) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("found the error %v, want it to contain %q", err, want)
				}
			}
			entries, _ := os.ReadDir(dir)
			if b, _ := os.ReadFile(path); string(b) != "old" || len(entries) != 1 {
				t.Errorf("the old file is not untouched and alone: %q, %v", b, entries)
			}
		})
	}
}

func TestDataThatIsMadeIsWrittenLikeDataThatIsThere(t *testing.T) {
	there := Tensor{Name: "a", Type: F16, Shape: []int{3}, Data: []byte{1, 2, 3, 4, 5, 6}}
	made := Tensor{Name: "a", Type: F16, Shape: []int{3}, Make: func() ([]byte, error) { return bytes.Clone(there.Data), nil }}
	var want, got bytes.Buffer
	if err := errors.Join(Encode(&want, new(Metadata), []Tensor{there}), Encode(&got, new(Metadata), []Tensor{made})); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("the files differ")
	}
	path := filepath.Join(t.TempDir(), "f.gguf")
	for _, c := range []struct {
		make func() ([]byte, error)
		want string
	}{
		{func() ([]byte, error) { return nil, errors.New("no luck") }, "no luck"},
		{func() ([]byte, error) { return make([]byte, 5), nil }, `tensor "a": 5 bytes were made, want 6`},
	} {
		made.Make = c.make
		if err := Write(path, new(Metadata), []Tensor{made}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
			t.Errorf("a write that failed leaves %s", left[0].Name())
		}
	}
}
