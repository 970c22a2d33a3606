package quant

import "math"

// nearest holds, for every half from -128 to 127.5, the code of the step of IQ4_NL nearest to what lies above it. All middles
// between two steps are whole or halves, so this decides exactly.
var nearest = func() (codes [512]byte) {
	for i := range codes {
		best := math.MaxInt
		for c, v := range uneven {
			miss := 2*i - 511 - 4*int(v) // in quarters, from the middle of the half
			if miss*miss < best {
				best, codes[i] = miss*miss, byte(c)
			}
		}
	}
	return codes
}()

// unevenCode returns the code of the step nearest to x/scale; inv is 1/scale, or 0 where the scale is.
func unevenCode(x float32, inv float64) byte {
	steps := float64(float64(x) * inv)
	return nearest[int(clamp(steps+steps+256, 0, 511))]
}

// fitUneven returns the scale, of either sign, that fits x as scale*uneven[q].
func fitUneven(x []float32, w []float64) (scale float64) {
	end := float64(extreme(x))
	best := math.Inf(1)
	for _, side := range []float64{-127, 113} { // the extreme lies near the first step or the last
		for move := -12.0; move <= 12; move += 1.5 {
			inv := (side + move) * inverse(end)
			var sqq, sqx float64
			for j, v := range x {
				q := float64(uneven[unevenCode(v, inv)])
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
	}
	return scale
}

// unevenError returns the weighted squared error of the best codes.
func unevenError(x []float32, w []float64, scale float64) float64 {
	var sum float64
	inv := inverse(scale)
	for j, v := range x {
		e := float64(scale*float64(uneven[unevenCode(v, inv)])) - float64(v)
		sum += float64(w[j] * e * e)
	}
	return sum
}

// putUneven writes the codes of 32 values as nibbles.
func putUneven(dst []byte, src []float32, inv float64) {
	for j := range 16 {
		dst[j] = unevenCode(src[j], inv) | unevenCode(src[j+16], inv)<<4
	}
}
