package safetensors

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"memra/internal/atomic"
)

// Write writes a file of these tensors, in this order; their File and Drop do not matter. The file appears under path whole or
// not at all, and replaces one that is there.
func Write(path string, metadata map[string]string, tensors []Tensor) error {
	if err := atomic.Write(path, func(w io.Writer) error { return Encode(w, metadata, tensors) }); err != nil {
		return fmt.Errorf("safetensors: writing %s: %w", path, err)
	}
	return nil
}

// Encode writes what Write does to w. It checks everything before it writes anything.
func Encode(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	head := []byte{'{'}
	field := func(name string, value any) error {
		if len(head) > 1 {
			head = append(head, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		head = append(append(append(head, key...), ':'), text...)
		return err
	}
	if metadata != nil {
		if err := field(metadataKey, metadata); err != nil {
			return err
		}
	}
	seen := map[string]bool{metadataKey: true}
	var at uint64
	for i, t := range tensors {
		size, err := byteSize(t.DType, t.Shape)
		switch {
		case err != nil:
			return fmt.Errorf("tensor %d %q: %w", i, t.Name, err)
		case len(t.Shape) > maxDims:
			return fmt.Errorf("tensor %d %q: shape %v has more than %d dimensions", i, t.Name, t.Shape, maxDims)
		case uint64(len(t.Data)) != size:
			return fmt.Errorf("tensor %d %q: has %d bytes of data, want %d for %s %v", i, t.Name, len(t.Data), size, t.DType, t.Shape)
		case seen[t.Name]:
			return fmt.Errorf("tensor %d %q: the name is taken", i, t.Name)
		}
		seen[t.Name] = true
		if err := field(t.Name, struct {
			DType   DType     `json:"dtype"`
			Shape   []int     `json:"shape"`
			Offsets [2]uint64 `json:"data_offsets"`
		}{t.DType, append([]int{}, t.Shape...), [2]uint64{at, at + size}}); err != nil {
			return err
		}
		at += size
	}
	head = append(head, '}')
	for len(head)%8 != 0 { // data starts aligned
		head = append(head, ' ')
	}
	if len(head) > MaxHeader {
		return fmt.Errorf("the header has %d bytes, want at most %d", len(head), MaxHeader)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head)))) // bufio keeps the first error for Flush
	out.Write(head)
	for _, t := range tensors {
		out.Write(t.Data)
	}
	return out.Flush()
}
