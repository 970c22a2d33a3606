package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"memra/internal/bounded"
)

// FuzzOpen reads arbitrary bytes as a file. They are refused by an error, or what was read keeps the package's promises
// and reads back the same after it is written. (It starts behind the mapping, which is the system's.)
func FuzzOpen(f *testing.F) {
	files, err := filepath.Glob("testdata/*.gguf")
	if err != nil || len(files) == 0 {
		f.Fatalf("found no seeds: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	meta, tensors := sample()
	var b bytes.Buffer
	if err := Encode(&b, meta, tensors); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(table(128, info1("a", 17, F32, 0), info1("b", 1, F32, 96)))
	f.Add(aligned(append(u32(4), u32(64)...)))
	f.Fuzz(func(t *testing.T, file []byte) {
		var h *header
		var err error
		bounded.Read(t, len(file), func() { h, err = readHeader("f", file) })
		if err != nil {
			return
		}
		used := make([]bool, len(file))
		for i := range h.tensors {
			d, start := &h.tensors[i], h.starts[i]
			if size, err := byteSize(d.Type, d.Shape); err != nil || uint64(len(d.Data)) != size {
				t.Fatalf("tensor %q: %s %v with %d bytes at %d, want %d (%v)", d.Name, d.Type, d.Shape, len(d.Data), start, size, err)
			}
			if !bytes.Equal(file[start:start+len(d.Data)], d.Data) {
				t.Fatalf("tensor %q: its data does not stand at byte %d", d.Name, start)
			}
			for k := range len(d.Data) {
				k += start
				if used[k] {
					t.Fatalf("tensor %q: byte %d belongs to another tensor", d.Name, k)
				}
				used[k] = true
			}
		}
		if h.alignment > 1<<12 {
			return // padding of gigabytes is legal, and slow to write
		}
		var once, twice bytes.Buffer
		if err := Encode(&once, h.meta, h.tensors); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := readHeader("f", once.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if err := Encode(&twice, again.meta, again.tensors); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("written, read and written again, the bytes differ (%v)", err)
		}
	})
}
