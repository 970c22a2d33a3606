package quant

import "math"

// fitSigned encodes the 256 values of src as codes q of 0 to 63 with x = d*s*(q-32) and an int8 s for each group of 16,
// for Q6_K. It writes the sixteen s to scales and d to dst.
func fitSigned(scales, dst []byte, q *[256]byte, src []float32) {
	var w [256]float64
	var scale [16]float64
	var most float64 // the scale of the largest magnitude, with its sign
	for g := range 16 {
		x, w := src[16*g:][:16], w[16*g:][:16]
		weightOf(w, x)
		scale[g] = fitLinear(x, w)
		if math.Abs(scale[g]) > math.Abs(most) {
			most = scale[g]
		}
	}
	d := float64(putHalf(dst, float32(most/-128)))
	for g := range 16 {
		x, w := src[16*g:][:16], w[16*g:][:16]
		var s float64
		if d != 0 {
			near := clamp(math.RoundToEven(scale[g]/d), -128, 127)
			best := math.Inf(1)
			for _, trial := range []float64{near, max(-128, near-1), min(127, near+1)} {
				if e := linearError(x, w, d*trial); e < best {
					best, s = e, trial
				}
			}
		}
		scales[g] = byte(int8(s))
		inv := inverse(d * s)
		for l, v := range x {
			q[16*g+l] = byte(32 + linearCode(v, inv))
		}
	}
}

// fitLinear returns the scale, of either sign, that fits x as scale*q with codes q of -32 to 31.
func fitLinear(x []float32, w []float64) (scale float64) {
	end := float64(extreme(x))
	best := math.Inf(1)
	for trial := -9; trial <= 9; trial++ { // spacings around the one that puts the extreme on code -32
		inv := (-32 + float64(trial)/10) * inverse(end)
		var sqq, sqx float64
		for j, v := range x {
			q := linearCode(v, inv)
			sqq += float64(w[j] * q * q)
			sqx += float64(w[j] * q * float64(v))
		}
		if sqq == 0 {
			continue
		}
		if e := linearError(x, w, sqx/sqq); e < best {
			best, scale = e, sqx/sqq
		}
	}
	return scale
}

// linearCode returns the code of -32 to 31 whose scale*q is nearest to x; inv is 1/scale, or 0 where the scale is.
func linearCode(x float32, inv float64) float64 {
	return float64(int(clamp(float64(float64(x)*inv)+32.5, 0.5, 63.5))) - 32
}

// linearError returns the weighted squared error of the best codes.
func linearError(x []float32, w []float64, scale float64) float64 {
	var sum float64
	inv := inverse(scale)
	for j, v := range x {
		e := float64(scale*linearCode(v, inv)) - float64(v)
		sum += float64(w[j] * e * e)
	}
	return sum
}
