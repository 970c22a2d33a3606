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

// page is a layer's part of a page; none for a page that is not kept.
func (m *deltaMemory) page(layer int, number int32) *deltaPage {
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
	return &deltaPage{s: part(h * d * d), k: part(m.shape.KeyHeads * d * compute.Page), u: part(h * compute.Page * d), g: part(h * compute.Page), x: rest}
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

// histories sorts a batch by sequence and position. Rows without a sequence are left out.
func histories(b *compute.Batch, d compute.Delta) []history {
	bySlot, order := map[int32]int{}, []history(nil)
	for r, slot := range b.Slots {
		if slot < 0 {
			continue
		}
		i, ok := bySlot[slot]
		if !ok {
			i = len(order)
			bySlot[slot], order = i, append(order, history{first: int(b.Positions[r])})
		}
		order[i].rows = append(order[i].rows, r)
		order[i].first = min(order[i].first, int(b.Positions[r]))
	}
	m := d.Memory.(*deltaMemory)
	for i := range order {
		h := &order[i]
		sorted := make([]int, len(h.rows))
		for _, r := range h.rows {
			sorted[int(b.Positions[r])-h.first] = r
		}
		h.rows = sorted
		table, page := d.Tables[b.Slots[sorted[0]]], h.first/compute.Page
		for _, number := range table[page : (h.first+len(sorted)-1)/compute.Page+1] {
			h.pages = append(h.pages, m.page(d.Layer, number))
		}
		if h.first%compute.Page == 0 && page > 0 {
			h.past = m.page(d.Layer, table[page-1])
		}
	}
	return order
}

// clearPadding zeroes the rows without a sequence.
func clearPadding(b *compute.Batch, y *buffer, width int) {
	for r, slot := range b.Slots {
		if slot < 0 {
			clear(y.row(r, width))
		}
	}
}
