package cpu

import (
	"memra/compute"
	"memra/sample"
)

// kernels are the inner loops of one instruction set. All sets compute the same bits; the Go set says which.
type kernels struct {
	name string

	dot              map[*layout][]tile // widest first; the last takes one row
	quantizeRow      func(p []panelBlock, r int, x []float32)
	sumSquares       func(x []float32) float32
	scale            func(y, x, g []float32, r float32)
	add              func(s, x, y []float32)
	swiglu           func(y, g, u []float32)
	geglu            func(y, g, u []float32)
	bend             func(y, x []float32, cap float32)
	addProducts      func(y, w, x []float32)
	sigmoid          func(y, x, z []float32)
	decay            func(y, x, g []float32, top float32)
	addMatrix        func(y []float32, ly int, a []float32, la int, b []float32, lb, rows, depth, width int)
	rotateHalves     func(lo, hi, cos, sin []float32)
	rotateNeighbours func(x, cos, sin []float32)
	halve            func(dst []half, src []float32) // converts
	spread           func(dst []half, src []float32) // the same, value i to dst[i*compute.Page]
	widen            func(dst []full, src []half)
	scores           func(s [][compute.Page]float32, q []float32, k []half)
	scoresFull       func(s [][compute.Page]float32, q []float32, k []full)
	softmax          func(s *[compute.Page]float32, peak *float32, sums *[16]float32) (rescale float32)
	values           func(o []float32, p [][compute.Page]float32, rescale []float32, v []half, from, to int)
	valuesFull       func(o []float32, p [][compute.Page]float32, rescale []float32, v []full, from, to int)
	largest          func(x []float32) float32 // sample.Largest
}

// tile is a dot kernel for up to `rows` rows at once.
type tile struct {
	rows int
	dot  dotFunc
}

// goKernels is plain Go: the reference, and what machines without assembly run.
var goKernels = kernels{
	name: "Go",
	dot: map[*layout][]tile{
		layoutQ8:   {{panelRows, dotQ8}},
		layoutQ4:   {{panelRows, dotQ4}},
		layoutQ4M:  {{panelRows, dotQ4M}},
		layoutQ5:   {{panelRows, dotQ5}},
		layoutQ5M:  {{panelRows, dotQ5M}},
		layoutK4:   {{panelRows, dotK4}},
		layoutK5:   {{panelRows, dotK5}},
		layoutK6:   {{panelRows, dotK6}},
		layoutK2:   {{panelRows, dotK2}},
		layoutK8:   {{panelRows, dotK8}},
		layoutF16:  {{panelRows, dotF16}},
		layoutBF16: {{panelRows, dotBF16}},
		layoutF32:  {{panelRows, dotF32}},
	},
	quantizeRow:      quantizeRowGo,
	sumSquares:       sumSquaresGo,
	scale:            scaleGo,
	add:              addGo,
	swiglu:           swigluGo,
	geglu:            gegluGo,
	bend:             bendGo,
	addProducts:      addProductsGo,
	sigmoid:          sigmoidGo,
	decay:            decayGo,
	addMatrix:        addMatrixGo,
	rotateHalves:     rotateHalvesGo,
	rotateNeighbours: rotateNeighboursGo,
	halve:            halveGo,
	spread:           spreadGo,
	widen:            widenGo,
	scores:           scoresGo[half],
	scoresFull:       scoresGo[full],
	softmax:          softmaxGo,
	values:           valuesGo[half],
	valuesFull:       valuesGo[full],
	largest:          sample.Largest,
}

// sets are the kernels that this machine can run, best first. Assembly puts itself in front, once, at start.
var sets = []*kernels{&goKernels}
