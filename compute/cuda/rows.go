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

// Keep reads rows as embed_f32 reads those of tokens.
func (s *step) Keep(m compute.RowMemory, x compute.Tensor, rows []int32) {
	if len(rows) > 0 {
		s.pick(m.(*rowMemory).at, s.asRows(x), rows, x.Width)
	}
}

// Kept likewise.
func (s *step) Kept(m compute.RowMemory, rows []int32) compute.Tensor {
	from := m.(*rowMemory)
	y, out := s.newRows(len(rows), from.width)
	s.pick(out.rows, from.at, rows, from.width)
	return y
}

// pick copies f32 rows: to[i] = from[rows[i]].
func (s *step) pick(to, from pointer, rows []int32, width int) {
	at := s.ints(len(rows), func(to []int32) { copy(to, rows) })
	s.launch("embed_f32", shape{grid: grid(len(rows), 1), block: 128}, to.arg(), at.arg(), from.arg(), i32(width), f32(1))
}
