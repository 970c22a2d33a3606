package gguf

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

const (
	magic            = "GGUF"
	alignmentKey     = "general.alignment"
	defaultAlignment = 32
	maxDims          = 4
)

// header is what one file says about itself.
type header struct {
	version   uint32
	alignment int
	meta      *Metadata
	tensors   []Tensor // with Data, windows into the bytes that were read
	starts    []int    // where each tensor's data starts in them
}

// readHeader reads a whole file's bytes; file names it in messages.
//
//	┌──────┬─────────┬─────────┬──────┬────────────┬──────────────┬─────┬──────────┬─────┬──────────┐
//	│ GGUF │ version │ tensors │ keys │ key, value │ tensor infos │ pad │ tensor   │ pad │ tensor   │
//	│      │   u32   │   u64   │ u64  │ ...        │ ...          │     │ data     │     │ data ... │
//	└──────┴─────────┴─────────┴──────┴────────────┴──────────────┴─────┴──────────┴─────┴──────────┘
//	                                                                    ↑ offsets in tensor infos count from here
func readHeader(file string, data []byte) (*header, error) {
	c := &cursor{file: file, data: data, place: place{"header", -1, ""}}
	h := &header{version: c.version()}
	// A tensor info takes 24 bytes at least (empty name, no dimensions), a key with its value 13 (empty key, one byte).
	tensors := c.count("tensors", 24)
	keys := c.count("metadata keys", 13)
	h.meta = c.metadata(keys)
	h.alignment = c.alignment(h.meta)
	infos := c.infos(tensors)
	c.place = place{"tensor data", -1, ""}
	start := alignUp(uint64(c.at), uint64(h.alignment))
	for i := range infos {
		c.locate(&infos[i], i, start, uint64(h.alignment))
	}
	c.refuseOverlap(infos)
	if c.err != nil {
		return nil, c.err
	}
	for i := range infos {
		h.tensors = append(h.tensors, infos[i].Tensor)
		h.starts = append(h.starts, infos[i].start)
	}
	return h, nil
}

// version reads and judges magic and version.
func (c *cursor) version() uint32 {
	if b := c.take(4, "the magic"); b != nil && string(b) != magic {
		c.fault(0, "found the bytes %q, want %q; this is not a GGUF file", b, magic)
	}
	v := c.uint32("the version")
	if c.err != nil {
		return 0
	}
	if swapped := bits.ReverseBytes32(v); v&0xffff == 0 && swapped != 0 && swapped&0xffff == swapped {
		c.fault(4, "found version %d with its bytes swapped: the file is big-endian, which memra does not read; "+
			"take the little-endian file or convert again", swapped)
	} else if v != 2 && v != 3 {
		c.fault(4, "found version %d, want 2 or 3; convert the model again", v)
	}
	return v
}

// metadata reads n keys with their values.
func (c *cursor) metadata(n int) *Metadata {
	m := &Metadata{file: c.file}
	for i := 0; i < n && c.err == nil; i++ {
		c.place = place{"key", i, ""}
		c.spend(1, bytesOfKey)
		at := c.at
		key := c.string("the key")
		c.place.name = key
		if _, double := m.value[key]; double && c.err == nil {
			c.fault(at, "the key is there twice")
		}
		v := c.value(kind(c.uint32("the value's type")), 0)
		if c.err == nil {
			m.Set(key, v)
		}
	}
	return m
}

// alignment returns the alignment of tensor data: the file's own, or 32.
func (c *cursor) alignment(m *Metadata) int {
	if _, ok := m.Get(alignmentKey); !ok || c.err != nil {
		return defaultAlignment
	}
	a, err := m.alignment()
	if err != nil {
		c.err = err
		return defaultAlignment
	}
	return a
}

// alignment returns the value of general.alignment, 32 if absent, and an error unless it is a power of two in 32 bits.
func (m *Metadata) alignment() (int, error) {
	if _, ok := m.Get(alignmentKey); !ok {
		return defaultAlignment, nil
	}
	a, err := m.Int(alignmentKey)
	if err != nil {
		return 0, err
	}
	if a <= 0 || a&(a-1) != 0 || uint64(a) > math.MaxUint32 {
		return 0, m.fault(alignmentKey, "found %d, want a power of two of at most 2^31", a)
	}
	return a, nil
}

// info is an entry of the tensor table.
type info struct {
	Tensor
	at         int    // where the entry stands in the file
	offset     uint64 // of the data, from the start of all tensor data
	size       uint64 // of the data
	start, end int    // of the data, in the file
}

// infos reads the tensor table of n entries.
func (c *cursor) infos(n int) []info {
	seen := make(map[string]int)
	var out []info
	for i := 0; i < n && c.err == nil; i++ {
		c.place = place{"tensor", i, ""}
		c.spend(1, bytesOfTensor)
		t := info{at: c.at}
		t.Name = c.string("the name")
		c.place.name = t.Name
		if first, double := seen[t.Name]; double && c.err == nil {
			c.fault(t.at, "tensor %d has the same name", first)
		}
		seen[t.Name] = i
		c.shape(&t)
		t.offset = c.uint64("the offset")
		out = append(out, t)
	}
	return out
}

// shape reads dimensions and type, and computes how many bytes they make.
func (c *cursor) shape(t *info) {
	at := c.at
	dims := c.uint32("the number of dimensions")
	if dims > maxDims {
		c.fault(at, "found %d dimensions, want at most %d", dims, maxDims)
	}
	if c.err != nil {
		return
	}
	t.Shape = make([]int, dims)
	for d := range t.Shape {
		at := c.at
		n := c.uint64("a dimension")
		if n > math.MaxInt {
			c.fault(at, "dimension %d is %d, beyond the largest integer %d", d, n, math.MaxInt)
			return
		}
		t.Shape[len(t.Shape)-1-d] = int(n) // the file names the fastest first
	}
	typeAt := c.at
	t.Type = Type(c.uint32("the type"))
	if c.err == nil && !t.Type.known() {
		c.fault(typeAt, "found %s, want one of %s", t.Type, strings.Join(knownTypes(), ", "))
	}
	if c.err != nil {
		return
	}
	size, err := byteSize(t.Type, t.Shape)
	if err != nil {
		c.fault(t.at, "%w", err)
	}
	t.size = size
}

// byteSize returns how many bytes a tensor of the shape takes; the last dimension must be whole blocks.
func byteSize(t Type, shape []int) (uint64, error) {
	values, bytes := t.Block()
	if values == 0 {
		return 0, fmt.Errorf("found %s, want one of %s", t, strings.Join(knownTypes(), ", "))
	}
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a dimension below zero", shape)
		}
	}
	row := 1 // of a tensor without dimensions, which is one value
	if len(shape) > 0 {
		row = shape[len(shape)-1]
	}
	if row%values != 0 {
		return 0, fmt.Errorf("shape %v has rows of %d values, want a multiple of %d, the block of %s", shape, row, values, t)
	}
	if slices.Contains(shape, 0) {
		return 0, nil // before the product, which could overflow on its way to zero
	}
	total := uint64(1)
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > math.MaxInt {
			return 0, fmt.Errorf("shape %v has more than %d values", shape, math.MaxInt)
		}
		total = lo
	}
	hi, size := bits.Mul64(total/uint64(values), uint64(bytes))
	if hi != 0 {
		return 0, fmt.Errorf("shape %v of %s takes more than 2^64 bytes", shape, t)
	}
	return size, nil
}

// locate finds the tensor's bytes in the file; data is where all tensor data starts.
func (c *cursor) locate(t *info, i int, data, alignment uint64) {
	if c.err != nil {
		return
	}
	c.place = place{"tensor", i, t.Name}
	if t.offset%alignment != 0 {
		c.fault(t.at, "its data is at offset %d, want a multiple of the alignment %d", t.offset, alignment)
		return
	}
	length := uint64(len(c.data))
	start, over := bits.Add64(data, t.offset, 0)
	if t.size == 0 {
		length = alignUp(length, alignment) // an empty tensor may stand behind padding that was never written
	}
	if over != 0 || start > length || t.size > length-start {
		c.fault(t.at, "%s %v takes %d bytes from offset %d of the tensor data, which starts at byte %d, but the file ends at byte %d; "+
			"it is truncated, download it again", t.Type, t.Shape, t.size, t.offset, data, len(c.data))
		return
	}
	if t.size > 0 {
		t.start, t.end = int(start), int(start+t.size)
		t.Data = c.data[t.start:t.end:t.end]
	}
}

// refuseOverlap reports the first two tensors, by place, that share bytes.
func (c *cursor) refuseOverlap(infos []info) {
	if c.err != nil {
		return
	}
	order := make([]int, 0, len(infos))
	for i := range infos {
		if infos[i].size > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(infos[a].start, infos[b].start) })
	for k := 1; k < len(order); k++ {
		a, b := &infos[order[k-1]], &infos[order[k]]
		if a.end > b.start {
			c.place = place{"tensor", order[k], b.Name}
			c.fault(b.at, "its data starts at byte %d, inside that of tensor %d %q, which ends at byte %d", b.start, order[k-1], a.Name, a.end)
			return
		}
	}
}

// alignUp returns the first multiple of alignment, a power of two, at or after n.
func alignUp(n, alignment uint64) uint64 { return (n + alignment - 1) &^ (alignment - 1) }
