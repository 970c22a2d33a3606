package quant

import "math"

// The K formats store scales of scales, so the best codes cannot be read off a group's extremes. The fits here, in ksigned.go
// and in ktable.go work in three steps: a least-squares fit per group over several trial spacings, rounding of the groups'
// scales to the block's grid, and a choice among the neighbouring grid points by the error that is left. Errors are weighted
// by weightOf. Products are converted before they are added, so no machine fuses them and the bytes are the same everywhere.

// weightOf fills w with the weight of each value's squared error: its magnitude plus the group's root mean square, for a large
// weight's error moves an output more often; times its importance, if that is known.
func weightOf(w []float64, x, importance []float32) {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	rms := math.Sqrt(sum / float64(len(x)))
	if importance != nil && largest(importance) == 0 { // columns that nothing reached: all alike, not all lost
		importance = nil
	}
	for j, v := range x {
		w[j] = rms + math.Abs(float64(v))
		if importance != nil {
			w[j] *= float64(importance[j])
		}
	}
}

// part is values [from, to) of the importance, nil where there is none.
func part(importance []float32, from, to int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[from:to]
}

// affine is a format of 256 values with x = d*s*q - dmin*m: groups of equal size, each with a scale s and a minimum m.
type affine struct {
	group int     // values of a group
	top   float64 // codes are 0 to top
	steps float64 // s and m are 0 to steps
}

// affineBlock is a block being encoded.
type affineBlock struct {
	affine
	x       []float32
	w       [256]float64
	d, dmin float64
	s, m    [16]byte
	q       [256]byte
}

// fit encodes the values of src. It writes d and dmin to their places, and returns s, m of each group and the codes.
func (f affine) fit(d, dmin []byte, src, importance []float32) (s, m [16]byte, q [256]byte) {
	b := affineBlock{affine: f, x: src}
	var scale, low [16]float64
	var mostScale, mostLow float64
	for g := range 256 / f.group {
		x, w := b.at(g)
		weightOf(w, x, part(importance, g*f.group, (g+1)*f.group))
		scale[g], low[g] = fitAffine(x, w, f.top, false)
		mostScale, mostLow = max(mostScale, scale[g]), max(mostLow, low[g])
	}
	b.d, b.dmin = float64(putHalf(d, float32(mostScale/f.steps))), float64(putHalf(dmin, float32(mostLow/f.steps)))
	for g := range 256 / f.group {
		x, w := b.at(g)
		best := math.Inf(1)
		for _, s := range around(scale[g], b.d, 0, f.steps) {
			for _, m := range around(low[g], b.dmin, 0, f.steps) {
				if e := affineError(x, w, b.d*s, float64(b.dmin*m), f.top); e < best {
					best, b.s[g], b.m[g] = e, byte(s), byte(m)
				}
			}
		}
	}
	e := b.code()
	if again := b; again.refit(d, dmin) && again.code() < e {
		return again.s, again.m, again.q
	}
	putHalf(d, float32(b.d))
	putHalf(dmin, float32(b.dmin))
	return b.s, b.m, b.q
}

// at is the values and the weights of a group.
func (b *affineBlock) at(g int) ([]float32, []float64) {
	return b.x[g*b.group:][:b.group], b.w[g*b.group:][:b.group]
}

// code chooses the codes, and returns their weighted squared error.
func (b *affineBlock) code() (sum float64) {
	for g := range 256 / b.group {
		x, w := b.at(g)
		scale, low := b.d*float64(b.s[g]), float64(b.dmin*float64(b.m[g]))
		inv := inverse(scale)
		for l, v := range x {
			q := affineCode(v, inv, low, b.top)
			b.q[g*b.group+l] = byte(q)
			e := float64(scale*q) - low - float64(v)
			sum += float64(w[l] * e * e)
		}
	}
	return sum
}

// refit makes d and dmin the least squares for all codes together, and writes them. It reports false where they cannot be.
func (b *affineBlock) refit(d, dmin []byte) bool {
	var uu, um, mm, ux, mx float64 // weighted sums of products, u = s*q
	for g := range 256 / b.group {
		x, w := b.at(g)
		m := float64(b.m[g])
		for l, v := range x {
			u := float64(b.s[g]) * float64(b.q[g*b.group+l])
			wu, wm := float64(w[l]*u), float64(w[l]*m)
			uu += float64(wu * u)
			um += float64(wu * m)
			mm += float64(wm * m)
			ux += float64(wu * float64(v))
			mx += float64(wm * float64(v))
		}
	}
	scale, low := ux*inverse(uu), 0.0
	if det := float64(uu*mm) - float64(um*um); det > 0 {
		scale, low = (float64(mm*ux)-float64(um*mx))/det, (float64(um*ux)-float64(uu*mx))/det
	}
	if !(scale >= 0 && low >= 0) {
		return false
	}
	b.d, b.dmin = float64(putHalf(d, float32(scale))), float64(putHalf(dmin, float32(low)))
	return true
}

// fitAffine returns the scale and the low that fit x as scale*q - low with codes q of 0 to top. low is at least 0 unless it may
// be anything.
func fitAffine(x []float32, w []float64, top float64, anyLow bool) (scale, low float64) {
	bottom, high := span(x)
	from := float64(bottom)
	if !anyLow {
		from = min(0, from)
	}
	width := float64(high) - from
	if width <= 0 {
		return 0, -from
	}
	// Weighted sums of 1 and x, and in each trial of q, q² and qx, for the normal equations of x = s*q + o.
	var n, sx float64
	for j, v := range x {
		n += w[j]
		sx += float64(w[j] * float64(v))
	}
	best := math.Inf(1)
	for trial := -10; trial <= 10; trial++ { // spacings around the one that puts the extremes on the first and last code
		inv := (top + float64(trial)/10) / width
		var sq, sqq, sqx float64
		for j, v := range x {
			q := affineCode(v, inv, -from, top)
			wq := float64(w[j] * q)
			sq += wq
			sqq += float64(wq * q)
			sqx += float64(wq * float64(v))
		}
		if sqq == 0 {
			continue
		}
		s, o := sqx/sqq, 0.0 // through the origin, unless a free offset is possible
		if det := float64(n*sqq) - float64(sq*sq); det > 0 {
			if free := (float64(sqq*sx) - float64(sq*sqx)) / det; free < 0 || anyLow { // the K formats subtract only
				s, o = (float64(n*sqx)-float64(sx*sq))/det, free
			}
		}
		if s <= 0 {
			continue
		}
		e := float64(s*(float64(s*sqq)-float64(2*sqx))) + float64(o*(float64(o*n)-float64(2*sx))) + float64(2*s*o*sq)
		if e < best { // the error of these codes, less that of zeros
			best, scale, low = e, s, -o
		}
	}
	return scale, low
}

// affineCode returns the code whose scale*q - low is nearest to x; inv is 1/scale, or 0 where the scale is.
func affineCode(x float32, inv, low, top float64) float64 {
	v := float64((float64(x) + low) * inv)
	if !(v > 0) {
		return 0
	}
	if v > top {
		return top
	}
	return float64(int(v + 0.5))
}

// affineError returns the weighted squared error of the best codes.
func affineError(x []float32, w []float64, scale, low, top float64) float64 {
	var sum float64
	inv := inverse(scale)
	for j, v := range x {
		e := float64(scale*affineCode(v, inv, low, top)) - low - float64(v)
		sum += float64(w[j] * e * e)
	}
	return sum
}

// around returns the points of the grid bottom..top (times unit) next to v: the nearest and its neighbours.
func around(v, unit, bottom, top float64) []float64 {
	if unit == 0 {
		return []float64{0}
	}
	near := clamp(math.RoundToEven(v/unit), bottom, top)
	points := make([]float64, 1, 3)
	points[0] = near
	if near > bottom {
		points = append(points, near-1)
	}
	if near < top {
		points = append(points, near+1)
	}
	return points
}

// searchAffine encodes one level of scales for importance: 32 values as codes of 0 to top, x = d*q + m with m of any sign. It
// writes d and m to dst and returns the code of a value.
func searchAffine(dst []byte, src, importance []float32, top float64) func(j int) byte {
	var w [32]float64
	weightOf(w[:], src, importance)
	scale, low := fitAffine(src, w[:], top, true)
	d, m := float64(putHalf(dst, float32(scale))), float64(putHalf(dst[2:], float32(-low)))
	inv := inverse(d)
	return func(j int) byte { return byte(affineCode(src[j], inv, -m, top)) }
}
