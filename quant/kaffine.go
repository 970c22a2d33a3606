package quant

import "math"

// The K formats store scales of scales, so the best codes cannot be read off a group's extremes. Both fits below work in
// three steps: a least-squares fit per group over several trial spacings, rounding of the groups' scales to the block's
// grid, and a choice among the neighbouring grid points by the error that is left. Errors are weighted by weightOf: a
// large weight's error moves an output more often. Products are converted before they are added, so no machine fuses them
// and the bytes are the same everywhere.

// weightOf fills w with the weight of each value's squared error: its magnitude plus the group's root mean square.
func weightOf(w []float64, x []float32) {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	rms := math.Sqrt(sum / float64(len(x)))
	for j, v := range x {
		w[j] = rms + math.Abs(float64(v))
	}
}

// fitGroups encodes the 256 values of src as codes q of 0 to top, with x = d*s*q - dmin*m and s, m for each group of 32.
// It writes d, dmin and the packed s and m to head, the first 16 bytes of a Q4_K or Q5_K block.
func fitGroups(head []byte, q *[256]byte, src []float32, top float64) {
	var w [256]float64
	var scale, low [8]float64
	var mostScale, mostLow float64
	for g := range 8 {
		x, w := src[32*g:][:32], w[32*g:][:32]
		weightOf(w, x)
		scale[g], low[g] = fitAffine(x, w, top)
		mostScale, mostLow = max(mostScale, scale[g]), max(mostLow, low[g])
	}
	d := float64(putHalf(head, float32(mostScale/63)))
	dmin := float64(putHalf(head[2:], float32(mostLow/63)))
	var s, m [8]byte
	for g := range 8 {
		x, w := src[32*g:][:32], w[32*g:][:32]
		best := math.Inf(1)
		for _, ds := range around(scale[g], d, 63) {
			for _, dm := range around(low[g], dmin, 63) {
				if e := affineError(x, w, d*ds, float64(dmin*dm), top); e < best {
					best, s[g], m[g] = e, byte(ds), byte(dm)
				}
			}
		}
		inv, low := inverse(d*float64(s[g])), float64(dmin*float64(m[g]))
		for l, v := range x {
			q[32*g+l] = byte(affineCode(v, inv, low, top))
		}
	}
	putScaleMins(head[4:], &s, &m)
}

// fitAffine returns the scale and low >= 0 that fit x as scale*q - low with codes q of 0 to top.
func fitAffine(x []float32, w []float64, top float64) (scale, low float64) {
	bottom, high := span(x)
	from, width := min(0, float64(bottom)), float64(high)-min(0, float64(bottom))
	if width <= 0 {
		return 0, -from
	}
	best := math.Inf(1)
	for trial := -10; trial <= 10; trial++ { // spacings around the one that puts the extremes on the first and last code
		inv := (top + float64(trial)/10) / width
		// Weighted sums of 1, q, q², x, qx for the normal equations of x = s*q + o.
		var n, sq, sqq, sx, sqx float64
		for j, v := range x {
			q := affineCode(v, inv, -from, top)
			wq := float64(w[j] * q)
			n += w[j]
			sq += wq
			sqq += float64(wq * q)
			sx += float64(w[j] * float64(v))
			sqx += float64(wq * float64(v))
		}
		if sqq == 0 {
			continue
		}
		s, o := sqx/sqq, 0.0 // through the origin, unless a free offset is possible
		if det := float64(n*sqq) - float64(sq*sq); det > 0 {
			if free := (float64(sqq*sx) - float64(sq*sqx)) / det; free < 0 { // the format subtracts only
				s, o = (float64(n*sqx)-float64(sx*sq))/det, free
			}
		}
		if s <= 0 {
			continue
		}
		if e := affineError(x, w, s, -o, top); e < best {
			best, scale, low = e, s, -o
		}
	}
	return scale, low
}

// affineCode returns the code whose scale*q - low is nearest to x; inv is 1/scale, or 0 where the scale is.
func affineCode(x float32, inv, low, top float64) float64 {
	return float64(int(clamp((float64(x)+low)*inv, 0, top) + 0.5))
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

// around returns the points of the grid 0..top (times unit) next to v: the nearest and its neighbours.
func around(v, unit, top float64) []float64 {
	if unit == 0 {
		return []float64{0}
	}
	near := clamp(math.RoundToEven(v/unit), 0, top)
	points := []float64{near}
	if near > 0 {
		points = append(points, near-1)
	}
	if near < top {
		points = append(points, near+1)
	}
	return points
}
