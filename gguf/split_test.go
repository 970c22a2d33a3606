package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bytesOf is tensors of so many bytes each, named a, b, c, ...
func bytesOf(sizes ...int) (tensors []Tensor) {
	for i, n := range sizes {
		tensors = append(tensors, Tensor{Name: string(rune('a' + i)), Type: I8, Shape: []int{n}, Data: bytes.Repeat([]byte{byte(i + 1)}, n)})
	}
	return tensors
}

func TestASetIsCutAtItsLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		sizes  []int
		limits Limits
		want   string
	}{
		{"no limit", []int{1, 2, 3}, Limits{}, "abc"},
		{"a number of tensors", []int{1, 1, 1, 1, 1}, Limits{Tensors: 2}, "ab cd e"},
		{"as many tensors as there are", []int{1, 1}, Limits{Tensors: 2}, "ab"},
		{"bytes with their padding", []int{32, 1, 33, 31}, Limits{Bytes: 64}, "ab c d"},
		{"tensors that are too large", []int{100, 1, 100, 100, 0}, Limits{Bytes: 10}, "a b c d e"},
		{"whichever comes first", []int{1, 1, 1, 96, 1}, Limits{Bytes: 96, Tensors: 2}, "ab c d e"},
		{"no tensors", nil, Limits{Bytes: 10}, ""},
	} {
		parts, err := Parts("m", bytesOf(c.sizes...), c.limits)
		var got []string
		for _, p := range parts {
			names := ""
			for _, t := range p.Tensors {
				names += t.Name
			}
			got = append(got, names)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: found %q, %v, want %q", c.name, strings.Join(got, " "), err, c.want)
		}
	}
	if _, err := Parts("m", nil, Limits{Tensors: -1}); err == nil {
		t.Error("a negative limit is taken")
	}
	if _, err := Parts("m", make([]Tensor, 70_000), Limits{Tensors: 1}); err == nil || !strings.Contains(err.Error(), "at most 65535") {
		t.Errorf("70,000 files: error %v", err)
	}
}

func TestASetReadsAsTheFileThatItWasCutFrom(t *testing.T) {
	meta, tensors := sample()
	meta.Set(splitCountKey, uint16(0)) // as llama.cpp leaves it in merged files
	dir := t.TempDir()
	parts, err := Parts(filepath.Join(dir, "m"), tensors, Limits{Tensors: 1})
	if err != nil || len(parts) != len(tensors) || len(parts) < 2 {
		t.Fatalf("%d parts of %d tensors, %v", len(parts), len(tensors), err)
	}
	if err := WriteSet(meta, parts); err != nil {
		t.Fatal(err)
	}
	var whole, merged bytes.Buffer
	if err := Encode(&whole, Whole(meta), tensors); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		f, err := Open(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		merged.Reset()
		if err := Encode(&merged, Whole(f.Meta), f.Tensors); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.Bytes(), merged.Bytes()) {
			t.Errorf("opened by %s, the set differs from the file", p.Path)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASetThatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	parts, err := Parts(filepath.Join(dir, "m"), bytesOf(1, 2, 3), Limits{Tensors: 1})
	if err != nil {
		t.Fatal(err)
	}
	parts[2].Tensors[0].Make = func() ([]byte, error) { return nil, os.ErrClosed }
	if err := WriteSet(new(Metadata), parts); err == nil || !strings.Contains(err.Error(), parts[2].Path) {
		t.Errorf("error %v, want one that names %s", err, parts[2].Path)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("found %v, %v, want nothing left", left, err)
	}
}
