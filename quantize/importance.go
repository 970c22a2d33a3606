package quantize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"memra/gguf"
	"memra/internal/mapped"
)

// Importance is how much the columns of matrices matter: the mean square of the activations that they meet, as llama.cpp's
// llama-imatrix measures it on a text.
type Importance struct {
	path   string
	matrix map[string][]float32 // by tensor; of a stack of experts, one run of columns after the other
}

// Len is how many matrices it knows.
func (m *Importance) Len() int { return len(m.matrix) }

// of returns the importance of a tensor's columns, for each matrix of a stack; nil where none is known.
func (m *Importance) of(t *gguf.Tensor) ([]float32, error) {
	if m == nil {
		return nil, nil
	}
	columns, ok := m.matrix[t.Name]
	if !ok {
		return nil, nil
	}
	width, rows := t.Shape[len(t.Shape)-1], t.Shape[len(t.Shape)-2]
	want := width
	if rows > 0 {
		want = t.Values() / rows
	}
	if len(columns) != want {
		if roleOf(t.Name) == embedding { // llama-imatrix counts its rows otherwise where it is the output matrix too
			return nil, nil
		}
		return nil, fmt.Errorf("quantize: %s: %q has %d columns, want %d for a tensor of shape %v; the importance is of another model",
			m.path, t.Name, len(columns), want, t.Shape)
	}
	return columns, nil
}

// ReadImportance reads what llama-imatrix writes: a GGUF file, or the older binary file.
func ReadImportance(path string) (*Importance, error) {
	m := &Importance{path: path, matrix: make(map[string][]float32)}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("quantize: importance: %w", err)
	}
	defer file.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(file, magic); err != nil {
		return nil, fmt.Errorf("quantize: %s: found no importance matrix: %w", path, err)
	}
	if string(magic) == "GGUF" {
		err = m.readGGUF()
	} else {
		err = m.readOld()
	}
	if err != nil {
		return nil, err
	}
	for name, columns := range m.matrix {
		for i, v := range columns {
			if v < 0 || v-v != 0 {
				return nil, fmt.Errorf("quantize: %s: column %d of %q has the importance %v, want 0 or more", path, i, name, v)
			}
		}
	}
	if len(m.matrix) == 0 {
		return nil, fmt.Errorf("quantize: %s: found no importance of any tensor; make it with llama-imatrix", path)
	}
	return m, nil
}

// readGGUF reads NAME.in_sum2, sums of squares [matrices, columns], and NAME.counts [matrices, 1], how many rows each is of.
func (m *Importance) readGGUF() error {
	f, err := gguf.Open(m.path)
	if err != nil {
		return err
	}
	defer f.Close()
	floats := func(name string) ([]float32, error) {
		t, ok := f.Tensor(name)
		if !ok || t.Type != gguf.F32 {
			return nil, fmt.Errorf("quantize: %s: found no F32 tensor %q beside the others; it is no importance matrix", m.path, name)
		}
		out := make([]float32, t.Values())
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
		return out, nil
	}
	for i := range f.Tensors {
		name, ok := strings.CutSuffix(f.Tensors[i].Name, ".in_sum2")
		if !ok {
			continue
		}
		sums, err := floats(f.Tensors[i].Name)
		if err != nil {
			return err
		}
		counts, err := floats(name + ".counts")
		if err != nil {
			return err
		}
		if len(counts) == 0 || len(sums)%len(counts) != 0 {
			return fmt.Errorf("quantize: %s: %q has %d sums for %d counts, want a multiple", m.path, name, len(sums), len(counts))
		}
		columns := len(sums) / len(counts)
		for j := range sums {
			if n := counts[j/columns]; n > 0 {
				sums[j] /= n
			} else {
				sums[j] = 1 // an expert that no token met
			}
		}
		m.matrix[name] = sums
	}
	return nil
}

// readOld reads the older file: a count of entries, then name, calls, and sums over calls of each, little-endian int32, int32
// and float32.
func (m *Importance) readOld() error {
	file, err := mapped.Open(m.path, "the file of llama-imatrix")
	if err != nil {
		return fmt.Errorf("quantize: importance: %w", err)
	}
	defer file.Close()
	r := bytes.NewReader(file.Data)
	number := func(what string, unit int) (n int, err error) {
		var v int32
		if err := binary.Read(r, binary.LittleEndian, &v); err != nil || v < 0 || int(v) > r.Len()/unit {
			return 0, fmt.Errorf("quantize: %s: found %d for %s with %d bytes left; it is no importance matrix, or cut short", m.path, v, what, r.Len())
		}
		return int(v), nil
	}
	entries, err := number("the number of entries", 12)
	for range entries {
		var n, values int
		if n, err = number("the length of a name", 1); err != nil {
			return err
		}
		name := make([]byte, n)
		r.Read(name)
		var calls int32
		if err := binary.Read(r, binary.LittleEndian, &calls); err != nil {
			return fmt.Errorf("quantize: %s: cut short after %q", m.path, name)
		}
		if values, err = number("the number of values", 4); err != nil {
			return err
		}
		columns := make([]float32, values)
		if err := binary.Read(r, binary.LittleEndian, columns); err != nil {
			return fmt.Errorf("quantize: %s: cut short in %q", m.path, name)
		}
		for i := range columns {
			columns[i] /= float32(max(1, calls))
		}
		m.matrix[string(name)] = columns
	}
	return err
}
