package cuda

import (
	"fmt"

	"memra/compute"
)

// rowMemory is f32 rows that outlive a step.
type rowMemory struct {
	device      *Device
	rows, width int
	at          pointer
}

// NewRows: see compute.Device.
func (d *Device) NewRows(rows, width int) (compute.RowMemory, error) {
	if rows <= 0 || width <= 0 {
		return nil, fmt.Errorf("cuda: memory for %d rows of width %d, want both positive", rows, width)
	}
	m := &rowMemory{device: d, rows: rows, width: width}
	err := d.owner.do(func() (err error) {
		m.at, err = d.alloc(4*rows*width, "%d rows of width %d", rows, width)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *rowMemory) Rows() int  { return m.rows }
func (m *rowMemory) Width() int { return m.width }

// Close: see compute.RowMemory.
func (m *rowMemory) Close() error {
	if m.device.owner == nil { // the device has freed it
		return nil
	}
	return m.device.owner.do(func() error { return m.device.free(m.at) })
}

// Keep: see compute.Ops.
func (s *step) Keep(m compute.RowMemory, x compute.Tensor, rows, places []int32) {
	if len(rows) > 0 {
		s.copyRows(m.(*rowMemory).at, s.asRows(x), places, rows, x.Width)
	}
}

// Kept: see compute.Ops.
func (s *step) Kept(m compute.RowMemory, places []int32) compute.Tensor {
	from := m.(*rowMemory)
	y, out := s.newRows(len(places), from.width)
	each := make([]int32, len(places))
	for i := range each {
		each[i] = int32(i)
	}
	s.copyRows(out.rows, from.at, each, places, from.width)
	return y
}

// copyRows launches copy_rows; kernels/embed.cu states the contract.
func (s *step) copyRows(to, from pointer, places, rows []int32, width int) {
	ints := func(list []int32) pointer { return s.ints(len(list), func(to []int32) { copy(to, list) }) }
	s.launch("copy_rows", shape{grid: grid(len(rows), 1), block: 128}, to.arg(), from.arg(), ints(places).arg(), ints(rows).arg(), i32(width))
}
