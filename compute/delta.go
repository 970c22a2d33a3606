package compute

import "fmt"

// DeltaShape is the shape of delta-net layers that share a page table: what they remember of a sequence (arXiv:2412.06464).
//
// Such a layer keeps, for each value head, a matrix that every row reads and changes. It is stored at the start of a page only,
// S [HeadDim of keys][HeadDim of values], with what the page's rows put into it: keys k, values u, sums of decays G. A row that is
// dropped is a row that is not read again. Beside them lie the inputs of the layer's convolution, from Taps-1 rows before the page on.
type DeltaShape struct {
	Layers     int
	KeyHeads   int // of queries and of keys
	ValueHeads int // a multiple of KeyHeads
	HeadDim    int // of keys and of values
	Taps       int // rows that the convolution sees
	Format     DeltaFormat
}

// DeltaFormat is how a device stores a delta-net's pages.
type DeltaFormat int

const (
	DeltaF32 DeltaFormat = iota // float32
	DeltaF16                    // S as float32 and as halves, G as float32, the rest as halves
)

// Width is how many values a row of the convolution has: queries, keys, values.
func (s DeltaShape) Width() int { return (2*s.KeyHeads + s.ValueHeads) * s.HeadDim }

// PageBytes is the exact size of one page, over all layers of the shape.
func (s DeltaShape) PageBytes() int {
	matrix, values := 4, 4
	if s.Format == DeltaF16 {
		matrix, values = 6, 2
	}
	states := s.ValueHeads * s.HeadDim * s.HeadDim
	rows := Page*(s.KeyHeads+s.ValueHeads)*s.HeadDim + (Page+s.Taps-1)*s.Width()
	return s.Layers * (matrix*states + values*rows + 4*Page*s.ValueHeads)
}

// ReadBytes is what a row reads of a layer, at least: the states.
func (s DeltaShape) ReadBytes() int {
	bytes := 4
	if s.Format == DeltaF16 {
		bytes = 2
	}
	return bytes * s.ValueHeads * s.HeadDim * s.HeadDim
}

// Check reports a shape that no delta-net has.
func (s DeltaShape) Check() error {
	if s.Layers <= 0 || s.KeyHeads <= 0 || s.ValueHeads <= 0 || s.HeadDim <= 0 || s.Taps <= 0 || s.ValueHeads%s.KeyHeads != 0 {
		return fmt.Errorf("compute: delta-net of %d layers, %d key heads, %d value heads of width %d and %d taps, want all positive and value heads a multiple of key heads",
			s.Layers, s.KeyHeads, s.ValueHeads, s.HeadDim, s.Taps)
	}
	return nil
}

// DeltaMemory is the pages of one shape on a device.
type DeltaMemory interface {
	PageMemory
	Shape() DeltaShape
}

// Delta is one delta-net layer's memory, as the operations of a step see it.
//
// A row at position p works in page p/64 and, where it is a page's first, begins with the state that the page before it ends
// with. So a step needs, for each sequence, the page of its first row, the page before if that row is a page's first, and the page of
// its last row; pages between may be -1: what would lie there is carried along and not kept.
type Delta struct {
	Memory DeltaMemory
	Layer  int       // within Memory's shape
	Tables [][]int32 // for each slot: the page of positions 64i to 64i+63; -1: not kept
}

// DeltaGates says how a delta-net's rows forget and learn.
type DeltaGates struct {
	A, DT   Vector  // [ValueHeads]: of the decay A*softplus(alpha + DT), A below zero
	Eps     float32 // under the root of the norms of queries and keys
	Grouped bool    // value head h has key head h/(ValueHeads/KeyHeads); otherwise h modulo KeyHeads
}
