package cpu

import (
	"fmt"
	"unsafe"

	"memra/compute"
)

// deltaMemory is the pages of delta-net layers. A layer's part of a page holds, in this order:
//
//	s [value heads][key width][value width]   the state as the page began
//	k [key heads][key width][64]              keys, transposed: lanes are rows of the page
//	u [value heads][64][value width]          what each row put in
//	g [value heads][64]                       sums of decays since the page began
//	x [taps-1+64][conv width]                 inputs of the convolution, from taps-1 rows before the page on
type deltaMemory struct {
	shape  compute.DeltaShape
	pages  int
	values []float32
	mapped []byte // what they lie in
}

// DeltaFormat: see compute.Device.
func (d *Device) DeltaFormat() compute.DeltaFormat { return compute.DeltaF32 }

// NewDelta reserves pages. Those that nobody has written to take no memory.
func (d *Device) NewDelta(shape compute.DeltaShape, pages int) (compute.DeltaMemory, error) {
	if err := shape.Check(); err != nil {
		return nil, err
	}
	if shape.HeadDim%16 != 0 || shape.Format != compute.DeltaF32 {
		return nil, fmt.Errorf("cpu: delta-net heads of width %d in format %d, want a multiple of 16 in float32 (%d)", shape.HeadDim, shape.Format, compute.DeltaF32)
	}
	bytes := pages * shape.PageBytes()
	mapped, err := mapAnonymous(bytes)
	if err != nil {
		return nil, fmt.Errorf("cpu: %d bytes for states of delta-nets: %w; ask for fewer sequences", bytes, err)
	}
	return &deltaMemory{shape, pages, unsafe.Slice((*float32)(unsafe.Pointer(&mapped[0])), bytes/4), mapped}, nil
}

func (m *deltaMemory) Shape() compute.DeltaShape { return m.shape }
func (m *deltaMemory) Pages() int                { return m.pages }

func (m *deltaMemory) Copy(dst, src int) {
	n := m.shape.PageBytes() / 4
	copy(m.values[dst*n:][:n], m.values[src*n:][:n])
}

// Read: see compute.PageMemory.
func (m *deltaMemory) Read(page int, data []byte) error {
	return readPage(m, m.mapped, m.shape.PageBytes(), page, data)
}

// Write: see compute.PageMemory.
func (m *deltaMemory) Write(page int, data []byte) error {
	return writePage(m, m.mapped, m.shape.PageBytes(), page, data)
}

func (m *deltaMemory) Close() error {
	mapped := m.mapped
	m.values, m.mapped = nil, nil
	return unmap(mapped)
}

// deltaPage is a layer's part of a page.
type deltaPage struct{ s, k, u, g, x []float32 }

// page makes p a layer's part of a page, and returns it; none for a page that is not kept.
func (m *deltaMemory) page(p *deltaPage, layer int, number int32) *deltaPage {
	if number < 0 {
		return nil
	}
	n := m.shape.PageBytes() / 4 / m.shape.Layers
	rest := m.values[(int(number)*m.shape.Layers+layer)*n:][:n]
	part := func(n int) []float32 {
		p := rest[:n:n]
		rest = rest[n:]
		return p
	}
	d, h := m.shape.HeadDim, m.shape.ValueHeads
	*p = deltaPage{s: part(h * d * d), k: part(m.shape.KeyHeads * d * compute.Page), u: part(h * compute.Page * d), g: part(h * compute.Page), x: rest}
	return p
}

// history is the rows that a step has of one sequence, by position, which ascends by one, and the pages that they lie in.
type history struct {
	first int          // position of the first row
	rows  []int        // of the batch
	pages []*deltaPage // from the first row's on; nil: not kept
	past  *deltaPage   // the page before, where the first row is a page's first; nil: none
}

// place is where row i lies: a page, counted from the first row's, and a place in it.
func (h *history) place(i int) (page, place int) {
	p := h.first%compute.Page + i
	return p / compute.Page, p % compute.Page
}

// sorting is the rows of a batch by sequence and position, which all layers have in common, and the pages of the layer that asked last.
type sorting struct {
	batch *compute.Batch // nil: none
	delta compute.Delta
	all   []history
	rows  []int // what their rows lie in
	of    []int // by slot: which of all, or -1
	pages []deltaPage
}

// histories sorts a batch by sequence and position. Rows without a sequence are left out.
func (s *step) histories(b *compute.Batch, d compute.Delta) []history {
	c := &s.sorted
	if c.batch != b {
		c.batch, c.delta = b, compute.Delta{}
		c.sort(b)
	}
	if c.delta.Memory != d.Memory || c.delta.Layer != d.Layer {
		c.delta = d
		c.find(d)
	}
	return c.all
}

// sort finds the rows of each sequence.
func (c *sorting) sort(b *compute.Batch) {
	c.all, c.rows, c.of = c.all[:0], sized(c.rows, b.Rows()), c.of[:0]
	counts := make([]int, 0, b.Rows())
	for r, slot := range b.Slots {
		if slot < 0 {
			continue
		}
		for int(slot) >= len(c.of) {
			c.of = append(c.of, -1)
		}
		position := int(b.Positions[r])
		if c.of[slot] < 0 {
			c.of[slot] = len(c.all)
			c.all, counts = append(c.all, history{first: position}), append(counts, 0)
		}
		h := &c.all[c.of[slot]]
		h.first = min(h.first, position)
		counts[c.of[slot]]++
	}
	at := 0
	for i, n := range counts {
		c.all[i].rows = c.rows[at : at+n : at+n]
		at += n
	}
	for r, slot := range b.Slots {
		if slot >= 0 {
			h := &c.all[c.of[slot]]
			h.rows[int(b.Positions[r])-h.first] = r
		}
	}
}

// find looks up the pages of a layer.
func (c *sorting) find(d compute.Delta) {
	m, n := d.Memory.(*deltaMemory), 0
	for i := range c.all {
		h := &c.all[i]
		n += 1 + (h.first%compute.Page+len(h.rows)-1)/compute.Page + 1
	}
	c.pages = sized(c.pages, n)
	left := c.pages
	take := func(number int32) *deltaPage {
		p := &left[0]
		left = left[1:]
		return m.page(p, d.Layer, number)
	}
	for i := range c.all {
		h := &c.all[i]
		table, page := d.Tables[c.batch.Slots[h.rows[0]]], h.first/compute.Page
		h.pages, h.past = h.pages[:0], nil
		for _, number := range table[page : (h.first+len(h.rows)-1)/compute.Page+1] {
			h.pages = append(h.pages, take(number))
		}
		if h.first%compute.Page == 0 && page > 0 {
			h.past = take(table[page-1])
		}
	}
}

// clearPadding zeroes the rows without a sequence.
func clearPadding(b *compute.Batch, y *buffer, width int) {
	for r, slot := range b.Slots {
		if slot < 0 {
			clear(y.row(r, width))
		}
	}
}
