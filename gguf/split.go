package gguf

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// Limits say where the next file of a set begins: before a tensor with which a file would exceed one of them. A tensor that is
// beyond them by itself gets a file of its own. 0: no limit.
type Limits struct {
	Bytes   int // of tensor data with its padding, in a file
	Tensors int // in a file
}

// Part is a file of a set that WriteSet writes.
type Part struct {
	Path    string
	Tensors []Tensor
}

// Parts cuts tensors into the files of a set: PREFIX-00001-of-0000N.gguf and so on, as llama.cpp names and cuts them.
func Parts(prefix string, tensors []Tensor, l Limits) ([]Part, error) {
	if l.Bytes < 0 || l.Tensors < 0 {
		return nil, fmt.Errorf("gguf: a set with files of %d bytes and %d tensors at most, want positive numbers, or 0 for no limit", l.Bytes, l.Tensors)
	}
	parts := []Part{{}}
	size := 0
	for _, t := range tensors {
		last := &parts[len(parts)-1]
		padded := int(alignUp(uint64(t.Size()), defaultAlignment))
		full := l.Bytes > 0 && size+padded > l.Bytes || l.Tensors > 0 && len(last.Tensors) == l.Tensors
		if full && len(last.Tensors) > 0 {
			parts = append(parts, Part{})
			last, size = &parts[len(parts)-1], 0
		}
		last.Tensors = append(last.Tensors, t)
		size += padded
	}
	if len(parts) > math.MaxUint16 {
		return nil, fmt.Errorf("gguf: a set of %d files, want at most %d; allow more in a file", len(parts), math.MaxUint16)
	}
	for i := range parts {
		parts[i].Path = fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, len(parts))
	}
	return parts, nil
}

// WriteSet writes the files of a set. The first has all of the metadata, the others only their place in the set. A file appears
// whole or not at all; after an error, those that were written already are removed.
func WriteSet(meta *Metadata, parts []Part) (err error) {
	total := 0
	for _, p := range parts {
		total += len(p.Tensors)
	}
	own := Whole(meta)
	for i, p := range parts {
		own.Set(splitNoKey, uint16(i))
		own.Set(splitCountKey, uint16(len(parts)))
		own.Set(splitTensorsKey, int32(total))
		if err := Write(p.Path, own, p.Tensors); err != nil {
			for _, written := range parts[:i] {
				os.Remove(written.Path)
			}
			return err
		}
		own = new(Metadata)
	}
	return nil
}

// Whole returns a copy of metadata without what it says of a place in a set.
func Whole(meta *Metadata) *Metadata {
	out := new(Metadata)
	for key, v := range meta.All() {
		if !strings.HasPrefix(key, "split.") {
			out.Set(key, v)
		}
	}
	return out
}
