package gguf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"memra/internal/mapped"
)

// The keys of a split set. split.no counts from 0, the names of the files from 1.
const (
	splitNoKey      = "split.no"
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count"
)

// File is an open model: one GGUF file, or all files of a split set.
type File struct {
	Path      string    // as given to Open or Parse
	Version   uint32    // 2 or 3
	Alignment int       // of tensor data, in bytes
	Meta      *Metadata // of a set's first file
	Tensors   []Tensor  // in the order of the tables, file after file

	byName map[string]int
	files  mapped.Set
}

// Tensor is an array in a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int  // slowest first: what GGUF lists as ne [576 49152] is [49152 576], 49152 rows of 576 values
	Data  []byte // the blocks, in the file's order; empty for a tensor with a zero dimension, and where Make is set

	// Make computes the data of a tensor that no file holds as such, anew with each call. Nil: Data is the data.
	Make func() ([]byte, error)

	// Parts are the same data by the first dimension, a tensor for each of its matrices, where that can be had piece by piece: a
	// reader that takes one at a time holds no more. Nil: it cannot.
	Parts []Tensor

	// Drop tells the system that the pages of bytes [from, to) of Data are not needed for now. Nil: there is nobody to tell.
	Drop func(from, to int)
}

// Bytes returns the tensor's data, where it stands or newly made. Its length is Size.
func (t *Tensor) Bytes() ([]byte, error) {
	if t.Make == nil {
		return t.Data, nil
	}
	data, err := t.Make()
	if err != nil {
		return nil, err
	}
	if len(data) != t.Size() {
		return nil, fmt.Errorf("gguf: tensor %q: %d bytes were made, want %d for %s %v", t.Name, len(data), t.Size(), t.Type, t.Shape)
	}
	return data, nil
}

// Size returns how many bytes the data of the tensor's type and shape has, and 0 for a type or a shape that cannot be.
func (t *Tensor) Size() int {
	size, err := byteSize(t.Type, t.Shape)
	if err != nil {
		return 0
	}
	return int(size)
}

// Values returns how many values the tensor has, the product of its shape.
func (t *Tensor) Values() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Release tells the system that the pages of bytes [from, to) of this tensor's data are not needed for now. The data stays
// readable: its next use reads the file again.
func (t *Tensor) Release(from, to int) {
	if t.Drop != nil {
		t.Drop(from, to)
	}
}

// Open maps a GGUF file, or the whole set if path is a member of a split set (name-00002-of-00005.gguf). The file must
// not be cut short while it is open; replacing it by another under the same name does no harm.
func Open(path string) (*File, error) {
	f := &File{Path: path, byName: make(map[string]int)}
	first, err := f.read(path)
	if err == nil {
		err = f.assemble(path, first)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Parse reads a GGUF file that is in memory already, such as one that is embedded in the program; name stands for its path. The file
// keeps data, which must not change while it is open. A member of a split set is refused: nobody knows where its siblings are.
func Parse(name string, data []byte) (*File, error) {
	f := &File{Path: name, byName: make(map[string]int)}
	h, err := readHeader(name, data)
	if err != nil {
		return nil, err
	}
	no, count, err := splitOf(h.meta)
	if err != nil {
		return nil, err
	}
	if count > 1 {
		return nil, fmt.Errorf("gguf: %s: this is file %d of %d of a split set, want one that stands alone; merge the set first", name, no+1, count)
	}
	f.Version, f.Alignment, f.Meta = h.version, h.alignment, h.meta
	return f, f.add(name, h)
}

// Close unmaps the files. Metadata stays valid; every Data becomes empty, and slices taken of it must not be touched.
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

// Release tells the system that no page of the files is needed for now, as after all weights were packed. All data stays
// readable: its next use reads the file again.
func (f *File) Release() { f.files.Release() }

// read maps one file and reads its header.
func (f *File) read(path string) (*header, error) {
	m, err := f.files.Open(path, "the .gguf file")
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	h, err := readHeader(path, m.Data)
	if err != nil {
		return nil, err
	}
	for i, start := range h.starts {
		h.tensors[i].Drop = func(from, to int) { m.Release(start+from, start+to) }
	}
	return h, nil
}

// assemble takes over the given member's tensors, and those of its siblings if it belongs to a split set.
func (f *File) assemble(path string, member *header) error {
	no, count, err := splitOf(member.meta)
	if err != nil {
		return err
	}
	if count <= 1 {
		f.Version, f.Alignment, f.Meta = member.version, member.alignment, member.meta
		return f.add(path, member)
	}
	names, err := siblings(path, no, count)
	if err != nil {
		return err
	}
	for i, name := range names {
		h := member
		if i != no {
			if h, err = f.read(name); err != nil {
				return err
			}
			n, c, err := splitOf(h.meta)
			if err != nil {
				return err
			}
			if n != i || c != count {
				return fmt.Errorf("gguf: %s: found split.no %d and split.count %d, want %d and %d as its name and its sibling %s say; "+
					"the files are of different sets", name, n, c, i, count, path)
			}
		}
		if i == 0 {
			f.Version, f.Alignment, f.Meta = h.version, h.alignment, h.meta
		}
		if err := f.add(name, h); err != nil {
			return err
		}
	}
	if _, ok := f.Meta.Get(splitTensorsKey); ok {
		total, err := f.Meta.Int(splitTensorsKey)
		if err != nil {
			return err
		}
		if total != len(f.Tensors) {
			return fmt.Errorf("gguf: %s: the %d files of the set have %d tensors, want %d as its %s says; a file was changed or is of another set",
				names[0], count, len(f.Tensors), total, splitTensorsKey)
		}
	}
	return nil
}

// add appends a file's tensors.
func (f *File) add(path string, h *header) error {
	for _, t := range h.tensors {
		if i, double := f.byName[t.Name]; double {
			return fmt.Errorf("gguf: %s: tensor %q is also tensor %d of the set, in an earlier file", path, t.Name, i)
		}
		f.byName[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// splitOf returns a file's place in its set, from 0, and the set's size: 0, 1 for a file that stands alone.
func splitOf(m *Metadata) (no, count int, err error) {
	if _, ok := m.Get(splitCountKey); !ok {
		return 0, 1, nil
	}
	if count, err = m.Int(splitCountKey); err != nil {
		return 0, 0, err
	}
	if count == 0 || count == 1 { // a set that was merged keeps a count of 0
		return 0, 1, nil
	}
	if count < 0 || count > 99999 { // names have five digits
		return 0, 0, m.fault(splitCountKey, "found %d, want 0 to 99999", count)
	}
	if no, err = m.Int(splitNoKey); err != nil {
		return 0, 0, err
	}
	if no < 0 || no >= count {
		return 0, 0, m.fault(splitNoKey, "found %d, want 0 to %d: split.count is %d", no, count-1, count)
	}
	return no, count, nil
}

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// siblings returns the paths of all members of the set that path belongs to, and an error if one is not there.
func siblings(path string, no, count int) ([]string, error) {
	dir, base := filepath.Split(path)
	part := splitName.FindStringSubmatch(base)
	if part == nil {
		return nil, fmt.Errorf("gguf: %s: this is file %d of %d of a split set, but its name does not end in -%05d-of-%05d.gguf, "+
			"so the others cannot be found; give all files their original names", path, no+1, count, no+1, count)
	}
	if n, of := atoi(part[2]), atoi(part[3]); n != no+1 || of != count {
		return nil, fmt.Errorf("gguf: %s: the name says file %d of %d, its metadata says file %d of %d; give it its original name",
			path, n, of, no+1, count)
	}
	var names, missing []string
	for i := range count {
		name := fmt.Sprintf("%s-%05d-of-%05d.gguf", part[1], i+1, count)
		if _, err := os.Stat(dir + name); errors.Is(err, os.ErrNotExist) {
			missing = append(missing, name)
		}
		names = append(names, dir+name)
	}
	if n := len(missing); n > 0 {
		if n > 5 {
			missing = append(missing[:5], "...")
		}
		return nil, fmt.Errorf("gguf: %s: %d of the set's %d files are missing beside it: %s: %w",
			path, n, count, strings.Join(missing, ", "), os.ErrNotExist)
	}
	return names, nil
}

// atoi reads digits that a pattern has matched.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
