package cpu

import (
	"fmt"
	"unsafe"

	"memra/compute"
	"memra/quant"
)

// kvMemory is the pages of one shape. A page of a layer holds, for each KV head, its keys transposed, [HeadDim][64], then
// its values, [64][HeadDim].
type kvMemory struct {
	shape  compute.KVShape
	pages  int
	half   []half // of a float16 cache
	full   []full // of a float32 one
	mapped []byte // what either lies in
}

// NewKV reserves pages, outside the collector's heap: it would take them for living memory and let garbage grow as large.
// Memory that no page has used yet costs nothing.
func (d *Device) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	if shape.HeadDim%16 != 0 {
		return nil, fmt.Errorf("cpu: head width %d, want a multiple of 16", shape.HeadDim)
	}
	if shape.Format != compute.KVF16 && shape.Format != compute.KVF32 {
		return nil, fmt.Errorf("cpu: KV cache in %v, want f16 or f32", shape.Format)
	}
	m := &kvMemory{shape: shape, pages: pages}
	values := pages * m.pageLen() * shape.Layers
	var err error
	bytes := pages * shape.PageBytes()
	if m.mapped, err = mapAnonymous(bytes); err != nil {
		return nil, fmt.Errorf("cpu: %d bytes for the KV cache: %w; ask for a smaller context", bytes, err)
	}
	if shape.Format == compute.KVF32 {
		m.full = unsafe.Slice((*full)(unsafe.Pointer(&m.mapped[0])), values)
		return m, nil
	}
	m.half = unsafe.Slice((*half)(unsafe.Pointer(&m.mapped[0])), values)
	return m, nil
}

func (m *kvMemory) Shape() compute.KVShape { return m.shape }
func (m *kvMemory) Pages() int             { return m.pages }

func (m *kvMemory) Close() error {
	mapped := m.mapped
	m.half, m.full, m.mapped = nil, nil, nil
	return unmap(mapped)
}

// headLen is the values of one head's keys in a page, and of its values.
func (m *kvMemory) headLen() int { return m.shape.HeadDim * compute.Page }

// pageLen is the values of one page of one layer.
func (m *kvMemory) pageLen() int { return 2 * m.shape.Heads * m.headLen() }

// at is where the keys of a head begin; its values follow.
func (m *kvMemory) at(layer, page, head int) int {
	return (page*m.shape.Layers+layer)*m.pageLen() + head*2*m.headLen()
}

func (m *kvMemory) Copy(dst, src int) {
	n := m.pageLen() * m.shape.Layers
	if m.full != nil {
		copy(m.full[dst*n:][:n], m.full[src*n:][:n])
		return
	}
	copy(m.half[dst*n:][:n], m.half[src*n:][:n])
}

// Read: see compute.PageMemory.
func (m *kvMemory) Read(page int, data []byte) error {
	return readPage(m, m.mapped, m.shape.PageBytes(), page, data)
}

// Write: see compute.PageMemory.
func (m *kvMemory) Write(page int, data []byte) error {
	return writePage(m, m.mapped, m.shape.PageBytes(), page, data)
}

// readPage copies a page of so many bytes out of the memory that pages lie in, one after another.
func readPage(m compute.PageMemory, mapped []byte, bytes, page int, data []byte) error {
	if err := compute.CheckPage(m, page, data, bytes); err != nil {
		return err
	}
	copy(data, mapped[page*bytes:])
	return nil
}

// writePage is the opposite.
func writePage(m compute.PageMemory, mapped []byte, bytes, page int, data []byte) error {
	if err := compute.CheckPage(m, page, data, bytes); err != nil {
		return err
	}
	copy(mapped[page*bytes:], data)
	return nil
}

// store writes one row's keys and values, [Heads*HeadDim] each, at a place within a page.
func (m *kvMemory) store(kernels *kernels, layer, page, place int, k, v []float32) {
	d := m.shape.HeadDim
	for h := range m.shape.Heads {
		keys := m.at(layer, page, h)
		values := keys + m.headLen() + place*d
		if m.full == nil {
			kernels.spread(m.half[keys+place:], k[h*d:][:d])
			kernels.halve(m.half[values:], v[h*d:][:d])
			continue
		}
		for i, x := range k[h*d:][:d] {
			m.full[keys+i*compute.Page+place] = full(x)
		}
		for i, x := range v[h*d:][:d] {
			m.full[values+i] = full(x)
		}
	}
}

// halveGo rounds values to halves.
func halveGo(dst []half, src []float32) {
	for i, x := range src {
		dst[i] = half(quant.F32ToF16(x))
	}
}

// widenGo converts halves to float32.
func widenGo(dst []full, src []half) {
	for i, h := range src {
		dst[i] = full(h.float())
	}
}

// spreadGo rounds values to halves, value i to a key's place in row i of a page's transposed keys.
func spreadGo(dst []half, src []float32) {
	for i, x := range src {
		dst[i*compute.Page] = half(quant.F32ToF16(x))
	}
}
