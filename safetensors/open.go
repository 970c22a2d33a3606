package safetensors

import (
	"errors"
	"fmt"

	"memra/internal/mapped"
)

// File is an open file, or all shards of a model.
type File struct {
	Path     string            // as given to Open or OpenFolder
	Metadata map[string]string // of the first file that has any
	Tensors  []Tensor          // in the order of the headers, file after file

	byName map[string]int
	files  mapped.Set
}

// Tensor is an array in a file.
type Tensor struct {
	Name  string
	DType DType
	Shape []int  // slowest first
	Data  []byte // the values, little-endian, rows after each other
	File  string // the path of the file that has it

	// Drop tells the system that the pages of bytes [from, to) of Data are not needed for now: their next use reads the file
	// again. Open sets it.
	Drop func(from, to int)
}

// Open maps one file. It must not be cut short while it is open; replacing it by another under the same name does no harm.
func Open(path string) (*File, error) {
	f := &File{Path: path, byName: map[string]int{}}
	if err := f.read(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close unmaps the files; every Data becomes empty, and slices taken of it must not be touched.
func (f *File) Close() error {
	for i := range f.Tensors {
		f.Tensors[i].Data, f.Tensors[i].Drop = nil, nil
	}
	return f.files.Close()
}

// Tensor returns the tensor of that name. It points into Tensors.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// Release tells the system that no page of the files is needed for now. All data stays readable: its next use reads the files
// again.
func (f *File) Release() { f.files.Release() }

// read maps a file and appends its tensors.
func (f *File) read(path string) error {
	m, err := f.files.Open(path, "the model's folder, or a .safetensors file")
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	h, err := readHeader(path, m.Data)
	if err != nil {
		return err
	}
	if f.Metadata == nil {
		f.Metadata = h.metadata
	}
	for _, e := range h.entries {
		if i, double := f.byName[e.Name]; double {
			return h.tensorFault(e.Name, "%s has a tensor of the same name", f.Tensors[i].File)
		}
		start := h.start + int(e.from)
		e.File, e.Drop = path, func(from, to int) { m.Release(start+from, start+to) }
		f.byName[e.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, e.Tensor)
	}
	return nil
}
