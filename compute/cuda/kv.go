package cuda

import (
	"fmt"
	"slices"

	"memra/compute"
)

// kvMemory is the pages of one shape, as kernels/pages.cuh lays them out: everything a page number means is contiguous.
type kvMemory struct {
	device *Device
	shape  compute.KVShape
	pages  int
	at     pointer
	attend string // the kernel for its head width
}

// headDims are the widths of heads that attention is compiled for.
var headDims = []int{16, 32, 64, 80, 96, 128, 192, 256}

// NewKV reserves pages, as zeros: a kernel multiplies what lies beyond a sequence's end by zero, so it must be finite.
func (d *Device) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	if shape.Format != compute.KVF16 {
		return nil, fmt.Errorf("cuda: KV cache in %v, want f16", shape.Format)
	}
	if !slices.Contains(headDims, shape.HeadDim) {
		return nil, fmt.Errorf("cuda: heads of width %d, want one of %v; compute on the CPU", shape.HeadDim, headDims)
	}
	m := &kvMemory{device: d, shape: shape, pages: pages, attend: fmt.Sprintf("attend_%d", shape.HeadDim)}
	err := d.owner.do(func() (err error) {
		bytes := pages * shape.PageBytes()
		if m.at, err = d.alloc(bytes, "%d KV pages of %d bytes", pages, shape.PageBytes()); err != nil {
			if full, ok := err.(*MemoryError); ok {
				return fmt.Errorf("%w; %d pages would fit", full, full.Free/uint64(shape.PageBytes()))
			}
			return err
		}
		return d.broken(check(d.driver, d.driver.memset(m.at, 0, bytes, d.stream), "cuMemsetD8Async(%d bytes)", bytes))
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

func (m *kvMemory) Close() error {
	if m.device.owner == nil { // the device has freed it
		return nil
	}
	return m.device.owner.do(func() error { return m.device.free(m.at) })
}
