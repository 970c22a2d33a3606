package cuda

import (
	"errors"
	"fmt"
	"slices"

	"memra/compute"
)

// kvMemory is the pages of one shape, as kernels/pages.cuh lays them out: everything a page number means is contiguous.
type kvMemory struct {
	device   *Device
	shape    compute.KVShape
	pages    int
	at       pointer
	arrivals pointer // counters of attention's works, zero between kernels
	plain    bool    // attend by the plain kernel: for GPUs that have no other, and tests
}

// headDims are the widths of heads that attention is compiled for.
var headDims = []int{16, 32, 64, 80, 96, 128, 192, 256, 512}

// kvFormats are the formats that kernels read and write, by the ends of their names.
var kvFormats = map[compute.KVFormat]string{compute.KVF16: "f16", compute.KVQ8: "q8_0", compute.KVE4M3: "e4m3"}

// NewKV reserves pages, as zeros: a kernel multiplies what lies beyond a sequence's end by zero, so it must be finite.
func (d *Device) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	if kvFormats[shape.Format] == "" {
		return nil, fmt.Errorf("cuda: KV cache in %v, want f16, q8_0 or fp8; f32 is kept on the CPU", shape.Format)
	}
	if !slices.Contains(headDims, shape.HeadDim) {
		return nil, fmt.Errorf("cuda: heads of width %d, want one of %v; compute on the CPU", shape.HeadDim, headDims)
	}
	m := &kvMemory{device: d, shape: shape, pages: pages, plain: d.target != "sm_90a"}
	err := d.owner.do(func() (err error) {
		bytes := pages * shape.PageBytes()
		if m.at, err = d.alloc(bytes, "%d KV pages of %d bytes", pages, shape.PageBytes()); err != nil {
			if full, ok := err.(*MemoryError); ok {
				return fmt.Errorf("%w; %d pages would fit", full, full.Free/uint64(shape.PageBytes()))
			}
			return err
		}
		if m.arrivals, err = d.alloc(4*arrivals, "counters of a KV cache"); err != nil {
			return errors.Join(err, d.free(m.at))
		}
		for _, z := range []struct {
			at    pointer
			bytes int
		}{{m.at, bytes}, {m.arrivals, 4 * arrivals}} {
			if err := check(d.driver, d.driver.memset(z.at, 0, z.bytes, d.stream), "cuMemsetD8Async(%d bytes)", z.bytes); err != nil {
				return d.broken(err)
			}
		}
		return nil
	})
	return m, err
}

func (m *kvMemory) Shape() compute.KVShape { return m.shape }
func (m *kvMemory) Pages() int             { return m.pages }

// Copy copies a page in all layers. A failure comes back from the next step.
func (m *kvMemory) Copy(dst, src int) {
	d, n := m.device, m.shape.PageBytes()
	d.owner.do(func() error {
		return d.broken(check(d.driver, d.driver.copyWithin(m.at+pointer(dst*n), m.at+pointer(src*n), n, d.stream), "cuMemcpyDtoDAsync(%d bytes)", n))
	})
}

// Read: see compute.PageMemory.
func (m *kvMemory) Read(page int, data []byte) error {
	return m.device.readPage(m, m.at, m.shape.PageBytes(), page, data)
}

// Write: see compute.PageMemory.
func (m *kvMemory) Write(page int, data []byte) error {
	return m.device.writePage(m, m.at, m.shape.PageBytes(), page, data)
}

func (m *kvMemory) Close() error {
	if m.device.owner == nil { // the device has freed it
		return nil
	}
	return m.device.owner.do(func() error { return errors.Join(m.device.free(m.at), m.device.free(m.arrivals)) })
}
