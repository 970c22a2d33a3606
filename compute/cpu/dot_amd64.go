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

var dotAVX512 = map[*layout][]tile{
	layoutQ8:   {quantised(8, dotQ8x8AVX512), quantised(4, dotQ8x4AVX512), quantised(2, dotQ8x2AVX512), quantised(1, dotQ8x1AVX512)},
	layoutQ4:   {quantised(8, dotQ4x8AVX512), quantised(4, dotQ4x4AVX512), quantised(2, dotQ4x2AVX512), quantised(1, dotQ4x1AVX512)},
	layoutQ4M:  {quantised(8, dotQ4Mx8AVX512), quantised(4, dotQ4Mx4AVX512), quantised(2, dotQ4Mx2AVX512), quantised(1, dotQ4Mx1AVX512)},
	layoutQ5:   {quantised(8, dotQ5x8AVX512), quantised(4, dotQ5x4AVX512), quantised(2, dotQ5x2AVX512), quantised(1, dotQ5x1AVX512)},
	layoutQ5M:  {quantised(8, dotQ5Mx8AVX512), quantised(4, dotQ5Mx4AVX512), quantised(2, dotQ5Mx2AVX512), quantised(1, dotQ5Mx1AVX512)},
	layoutK4:   {quantised(8, dotK4x8AVX512), quantised(4, dotK4x4AVX512), quantised(2, dotK4x2AVX512), quantised(1, dotK4x1AVX512)},
	layoutK5:   {quantised(8, dotK5x8AVX512), quantised(4, dotK5x4AVX512), quantised(2, dotK5x2AVX512), quantised(1, dotK5x1AVX512)},
	layoutK6:   {quantised(8, dotK6x8AVX512), quantised(4, dotK6x4AVX512), quantised(2, dotK6x2AVX512), quantised(1, dotK6x1AVX512)},
	layoutK2:   {quantised(8, dotK2x8AVX512), quantised(4, dotK2x4AVX512), quantised(2, dotK2x2AVX512), quantised(1, dotK2x1AVX512)},
	layoutK8:   {quantised(8, dotK8x8AVX512), quantised(4, dotK8x4AVX512), quantised(2, dotK8x2AVX512), quantised(1, dotK8x1AVX512)},
	layoutF16:  {floating(4, dotF16x4AVX512), floating(2, dotF16x2AVX512), floating(1, dotF16x1AVX512)},
	layoutBF16: {floating(4, dotBF16x4AVX512), floating(2, dotBF16x2AVX512), floating(1, dotBF16x1AVX512)},
	layoutF32:  {floating(4, dotF32x4AVX512), floating(2, dotF32x2AVX512), floating(1, dotF32x1AVX512)},
}

var dotAVX2 = map[*layout][]tile{
	layoutQ8:   {quantised(4, dotQ8x4AVX2), quantised(2, dotQ8x2AVX2), quantised(1, dotQ8x1AVX2)},
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
