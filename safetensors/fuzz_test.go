package safetensors

import (
	"bytes"
	"testing"

	"memra/internal/bounded"
)

// FuzzHeader: what is read has windows that share no byte and cover the data, and reads the same after writing.
func FuzzHeader(f *testing.F) {
	metadata, tensors := sample()
	var b bytes.Buffer
	if err := Encode(&b, metadata, tensors); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(raw(`{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  `, 8))
	f.Add(raw(`{"__metadata__":{"a":"b"},"t":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}`, 3))
	f.Fuzz(func(t *testing.T, file []byte) {
		var h *header
		var err error
		bounded.Read(t, len(file), func() { h, err = readHeader("f", file) })
		if err != nil {
			return
		}
		total := 0
		var tensors []Tensor
		for _, e := range h.entries {
			if size, err := byteSize(e.DType, e.Shape); err != nil || uint64(len(e.Data)) != size {
				t.Fatalf("tensor %q: %s %v with %d bytes, want %d (%v)", e.Name, e.DType, e.Shape, len(e.Data), size, err)
			}
			total += len(e.Data)
			tensors = append(tensors, e.Tensor)
		}
		if total != len(file)-h.start {
			t.Fatalf("the tensors have %d bytes, the file has %d of data", total, len(file)-h.start)
		}
		var written bytes.Buffer
		if err := Encode(&written, h.metadata, tensors); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := readHeader("f", written.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for i, e := range again.entries {
			if e.Name != h.entries[i].Name || !bytes.Equal(e.Data, h.entries[i].Data) {
				t.Fatalf("tensor %q reads as %q after writing", h.entries[i].Name, e.Name)
			}
		}
	})
}
