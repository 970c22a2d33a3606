package quant

import "math"

// signed is a format of 256 values with x = d*s*q: groups of 16, each with a scale s of either sign.
type signed struct {
	half  float64 // codes q are -half to half-1
	steps float64 // s is -steps to steps-1
}

// fit encodes the values of src. It writes d to its place, and returns s of each group and the codes, both from 0 on.
func (f signed) fit(d []byte, src, importance []float32) (s [16]byte, q [256]byte) {
	var w [256]float64
	var scale [16]float64
	var most float64 // the scale of the largest magnitude, with its sign
	for g := range 16 {
		x, w := src[16*g:][:16], w[16*g:][:16]
		weightOf(w, x, part(importance, 16*g, 16*g+16))
		scale[g] = fitLinear(x, w, f.half)
		if math.Abs(scale[g]) > math.Abs(most) {
			most = scale[g]
		}
	}
	unit := float64(putHalf(d, float32(-most/f.steps)))
	for g := range 16 {
		x, w := src[16*g:][:16], w[16*g:][:16]
		var step float64
		best := math.Inf(1)
		for _, trial := range around(scale[g], unit, -f.steps, f.steps-1) {
			if e := linearError(x, w, unit*trial, f.half); e < best {
				best, step = e, trial
			}
		}
		s[g] = byte(step + f.steps)
		inv := inverse(unit * step)
		for l, v := range x {
			q[16*g+l] = byte(linearCode(v, inv, f.half) + f.half)
		}
	}
	return s, q
}

// fitLinear returns the scale, of either sign, that fits x as scale*q with codes q of -half to half-1.
func fitLinear(x []float32, w []float64, half float64) (scale float64) {
	end := float64(extreme(x))
	best := math.Inf(1)
	for trial := -9; trial <= 9; trial++ { // spacings around the one that puts the extreme on code -half
		inv := (-half + float64(trial)/10) * inverse(end)
		var sqq, sqx float64
		for j, v := range x {
			q := linearCode(v, inv, half)
			sqq += float64(w[j] * q * q)
			sqx += float64(w[j] * q * float64(v))
		}
		if sqq == 0 {
			continue
		}
		if e := -float64(sqx*sqx) / sqq; e < best { // the error of these codes, less that of zeros
			best, scale = e, sqx/sqq
		}
	}
	return scale
}

// linearCode returns the code of -half to half-1 whose scale*q is nearest to x; inv is 1/scale, or 0 where the scale is.
func linearCode(x float32, inv, half float64) float64 {
	return float64(int(clamp(float64(float64(x)*inv)+half+0.5, 0.5, 2*half-0.5))) - half
}

// linearError returns the weighted squared error of the best codes.
func linearError(x []float32, w []float64, scale, half float64) float64 {
	var sum float64
	inv := inverse(scale)
	for j, v := range x {
		e := float64(scale*linearCode(v, inv, half)) - float64(v)
		sum += float64(w[j] * e * e)
	}
	return sum
}

// searchLinear encodes one level of scales for importance: 32 values as codes of -half to half-1, x = d*q. It writes d to dst
// and returns the code of a value, from 0 on.
func searchLinear(dst []byte, src, importance []float32, half float64) func(j int) byte {
	var w [32]float64
	weightOf(w[:], src, importance)
	inv := inverse(float64(putHalf(dst, float32(fitLinear(src, w[:], half)))))
	return func(j int) byte { return byte(linearCode(src[j], inv, half) + half) }
}
