package cpu

import (
	"fmt"

	"memra/compute"
)

// rowMemory is rows that outlive a step.
type rowMemory struct {
	rows, width int
	values      []float32
}

// NewRows: see compute.Device.
func (d *Device) NewRows(rows, width int) (compute.RowMemory, error) {
	if rows <= 0 || width <= 0 {
		return nil, fmt.Errorf("cpu: memory for %d rows of width %d, want both positive", rows, width)
	}
	return &rowMemory{rows, width, make([]float32, rows*width)}, nil
}

func (m *rowMemory) Rows() int  { return m.rows }
func (m *rowMemory) Width() int { return m.width }

// Close leaves the memory to the collector.
func (m *rowMemory) Close() error { m.values = nil; return nil }

// Keep copies.
func (s *step) Keep(m compute.RowMemory, x compute.Tensor, rows, places []int32) {
	to := m.(*rowMemory)
	for i, r := range rows {
		copy(to.values[int(places[i])*to.width:][:to.width], s.ready(x).row(int(r), x.Width))
	}
}

// Kept copies.
func (s *step) Kept(m compute.RowMemory, places []int32) compute.Tensor {
	from := m.(*rowMemory)
	y, out := s.tensor(len(places), from.width)
	for i, p := range places {
		copy(out.row(i, from.width), from.values[int(p)*from.width:])
	}
	return y
}
