//go:build amd64 && !noasm

package cpu

// The assembly of dot.go, written by gen/dot. A kernel takes a fixed number of rows, and all of K.

// quantisedDot multiplies a group of packed outputs w by rows of quantised activations: q and d are the first row's values and
// scale in the first of blocks > 0 panel blocks, the other rows' lie after them. Row r of the products begins at y[r*stride].
type quantisedDot = func(y *float32, stride int, w *byte, q *int8, d *float32, blocks int)

// floatDot is the same for rows of k float32 activations, one after the other.
type floatDot = func(y *float32, stride int, w *byte, x *float32, k int)

func quantised(rows int, kernel quantisedDot) tile {
	return tile{rows, func(y []float32, stride int, w []byte, x *rowTile) {
		p := &x.panel[0]
		_ = y[(rows-1)*stride+group-1]
		kernel(&y[0], stride, &w[0], &p.q[x.first][0], &p.d[x.first], len(x.panel))
	}}
}

func floating(rows int, kernel floatDot) tile {
	return tile{rows, func(y []float32, stride int, w []byte, x *rowTile) {
		_, _ = y[(rows-1)*stride+group-1], x.float[rows*x.k-1]
		kernel(&y[0], stride, &w[0], &x.float[0], x.k)
	}}
}

// allRows are the tiles of kernels for 8, 6, 5, 4, 3, 2 and 1 rows: a draft or two beside a row must not read the weights twice.
func allRows(kernels ...quantisedDot) (tiles []tile) {
	for i, rows := range []int{8, 6, 5, 4, 3, 2, 1} {
		tiles = append(tiles, quantised(rows, kernels[i]))
	}
	return tiles
}

var dotAVX512 = map[*layout][]tile{
	layoutQ8:   allRows(dotQ8x8AVX512, dotQ8x6AVX512, dotQ8x5AVX512, dotQ8x4AVX512, dotQ8x3AVX512, dotQ8x2AVX512, dotQ8x1AVX512),
	layoutQ4:   allRows(dotQ4x8AVX512, dotQ4x6AVX512, dotQ4x5AVX512, dotQ4x4AVX512, dotQ4x3AVX512, dotQ4x2AVX512, dotQ4x1AVX512),
	layoutQ4M:  allRows(dotQ4Mx8AVX512, dotQ4Mx6AVX512, dotQ4Mx5AVX512, dotQ4Mx4AVX512, dotQ4Mx3AVX512, dotQ4Mx2AVX512, dotQ4Mx1AVX512),
	layoutQ5:   allRows(dotQ5x8AVX512, dotQ5x6AVX512, dotQ5x5AVX512, dotQ5x4AVX512, dotQ5x3AVX512, dotQ5x2AVX512, dotQ5x1AVX512),
	layoutQ5M:  allRows(dotQ5Mx8AVX512, dotQ5Mx6AVX512, dotQ5Mx5AVX512, dotQ5Mx4AVX512, dotQ5Mx3AVX512, dotQ5Mx2AVX512, dotQ5Mx1AVX512),
	layoutK4:   allRows(dotK4x8AVX512, dotK4x6AVX512, dotK4x5AVX512, dotK4x4AVX512, dotK4x3AVX512, dotK4x2AVX512, dotK4x1AVX512),
	layoutK5:   allRows(dotK5x8AVX512, dotK5x6AVX512, dotK5x5AVX512, dotK5x4AVX512, dotK5x3AVX512, dotK5x2AVX512, dotK5x1AVX512),
	layoutK6:   allRows(dotK6x8AVX512, dotK6x6AVX512, dotK6x5AVX512, dotK6x4AVX512, dotK6x3AVX512, dotK6x2AVX512, dotK6x1AVX512),
	layoutK2:   allRows(dotK2x8AVX512, dotK2x6AVX512, dotK2x5AVX512, dotK2x4AVX512, dotK2x3AVX512, dotK2x2AVX512, dotK2x1AVX512),
	layoutK8:   allRows(dotK8x8AVX512, dotK8x6AVX512, dotK8x5AVX512, dotK8x4AVX512, dotK8x3AVX512, dotK8x2AVX512, dotK8x1AVX512),
	layoutF16:  {floating(4, dotF16x4AVX512), floating(2, dotF16x2AVX512), floating(1, dotF16x1AVX512)},
	layoutBF16: {floating(4, dotBF16x4AVX512), floating(2, dotBF16x2AVX512), floating(1, dotBF16x1AVX512)},
	layoutF32:  {floating(4, dotF32x4AVX512), floating(2, dotF32x2AVX512), floating(1, dotF32x1AVX512)},
}

var dotAVX2 = map[*layout][]tile{
	layoutQ8:   {quantised(4, dotQ8x4AVX2), quantised(3, dotQ8x3AVX2), quantised(2, dotQ8x2AVX2), quantised(1, dotQ8x1AVX2)},
	layoutQ4:   {quantised(4, dotQ4x4AVX2), quantised(2, dotQ4x2AVX2), quantised(1, dotQ4x1AVX2)},
	layoutQ4M:  {quantised(4, dotQ4Mx4AVX2), quantised(2, dotQ4Mx2AVX2), quantised(1, dotQ4Mx1AVX2)},
	layoutQ5:   {quantised(4, dotQ5x4AVX2), quantised(2, dotQ5x2AVX2), quantised(1, dotQ5x1AVX2)},
	layoutQ5M:  {quantised(4, dotQ5Mx4AVX2), quantised(2, dotQ5Mx2AVX2), quantised(1, dotQ5Mx1AVX2)},
	layoutK4:   {quantised(4, dotK4x4AVX2), quantised(2, dotK4x2AVX2), quantised(1, dotK4x1AVX2)},
	layoutK5:   {quantised(4, dotK5x4AVX2), quantised(2, dotK5x2AVX2), quantised(1, dotK5x1AVX2)},
	layoutK6:   {quantised(4, dotK6x4AVX2), quantised(2, dotK6x2AVX2), quantised(1, dotK6x1AVX2)},
	layoutK2:   {quantised(4, dotK2x4AVX2), quantised(2, dotK2x2AVX2), quantised(1, dotK2x1AVX2)},
	layoutK8:   {quantised(4, dotK8x4AVX2), quantised(2, dotK8x2AVX2), quantised(1, dotK8x1AVX2)},
	layoutF16:  {floating(2, dotF16x2AVX2), floating(1, dotF16x1AVX2)},
	layoutBF16: {floating(2, dotBF16x2AVX2), floating(1, dotBF16x1AVX2)},
	layoutF32:  {floating(2, dotF32x2AVX2), floating(1, dotF32x1AVX2)},
}
