package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"memra/internal/atomic"
)

// version is what Write writes.
const version = 3

// Write writes a GGUF file of version 3, tensors in the order given, aligned as the metadata's general.alignment says or
// to 32 bytes. The file appears under path whole or not at all, and replaces one that is there.
func Write(path string, meta *Metadata, tensors []Tensor) error {
	if err := atomic.Write(path, func(w io.Writer) error { return Encode(w, meta, tensors) }); err != nil {
		return fmt.Errorf("gguf: writing %s: %w", path, err)
	}
	return nil
}

// Encode writes what Write does to w. It checks everything before it writes anything, but for data that is made: a tensor is
// made when its turn comes, so that one at a time is in memory.
func Encode(w io.Writer, meta *Metadata, tensors []Tensor) error {
	alignment, err := meta.alignment()
	if err != nil {
		return err
	}
	head := encoder{}
	head = append(head, magic...)
	head.uint32(version)
	head.uint64(uint64(len(tensors)))
	head.uint64(uint64(meta.Len()))
	for key, v := range meta.All() {
		head.string(key)
		if err := head.tagged(v); err != nil {
			return meta.fault(key, "%w", err)
		}
	}
	seen := make(map[string]bool)
	var offset uint64
	for i, t := range tensors {
		size, err := byteSize(t.Type, t.Shape)
		switch {
		case err != nil:
			return fmt.Errorf("gguf: tensor %d %q: %w", i, t.Name, err)
		case len(t.Shape) > maxDims:
			return fmt.Errorf("gguf: tensor %d %q: shape %v has %d dimensions, want at most %d", i, t.Name, t.Shape, len(t.Shape), maxDims)
		case t.Make == nil && uint64(len(t.Data)) != size:
			return fmt.Errorf("gguf: tensor %d %q: has %d bytes of data, want %d for %s %v", i, t.Name, len(t.Data), size, t.Type, t.Shape)
		case seen[t.Name]:
			return fmt.Errorf("gguf: tensor %d %q: another tensor has the same name", i, t.Name)
		}
		seen[t.Name] = true
		head.string(t.Name)
		head.uint32(uint32(len(t.Shape)))
		for _, n := range slices.Backward(t.Shape) {
			head.uint64(uint64(n))
		}
		head.uint32(uint32(t.Type))
		head.uint64(offset)
		offset = alignUp(offset+size, uint64(alignment))
	}
	out := bufio.NewWriterSize(w, 1<<16)
	zeros := make([]byte, 4096)
	aligned := func(b []byte) { // bufio keeps the first error for Flush
		out.Write(b)
		for pad := -len(b) & (alignment - 1); pad > 0; pad -= len(zeros) {
			out.Write(zeros[:min(pad, len(zeros))])
		}
	}
	aligned(head)
	for _, t := range tensors {
		data, err := t.Bytes()
		if err != nil {
			return err
		}
		aligned(data)
		t.Release(0, len(t.Data))
	}
	return out.Flush()
}

// encoder collects a header's bytes.
type encoder []byte

func (e *encoder) uint32(v uint32) { *e = binary.LittleEndian.AppendUint32(*e, v) }
func (e *encoder) uint64(v uint64) { *e = binary.LittleEndian.AppendUint64(*e, v) }

func (e *encoder) string(s string) {
	e.uint64(uint64(len(s)))
	*e = append(*e, s...)
}

// tagged writes a value's type and the value.
func (e *encoder) tagged(v any) error {
	k, n := kindOf(v)
	switch {
	case k == kindNone:
		return fmt.Errorf("found the Go type %T, want one that Metadata lists", v)
	case n < 0:
		e.uint32(uint32(k))
	default:
		e.uint32(uint32(kindArray))
	}
	return e.value(v, 0)
}

// value writes a value without its own type; depth counts the arrays around it.
func (e *encoder) value(v any, depth int) error {
	if k, n := kindOf(v); n >= 0 {
		if depth == maxNesting {
			return fmt.Errorf("arrays are nested more than %d deep", maxNesting)
		}
		e.uint32(uint32(k))
		e.uint64(uint64(n))
	}
	switch v := v.(type) {
	case string:
		e.string(v)
	case []string:
		for _, s := range v {
			e.string(s)
		}
	case []any:
		for i, inner := range v {
			if _, n := kindOf(inner); n < 0 {
				return fmt.Errorf("element %d is a %T, want an array", i, inner)
			}
			if err := e.value(inner, depth+1); err != nil {
				return err
			}
		}
	default: // numbers, bools and slices of them have one fixed layout
		b, err := binary.Append(*e, binary.LittleEndian, v)
		if err != nil {
			return err
		}
		*e = b
	}
	return nil
}
