package cpu

import "math"

// sumSquaresGo is the sum of x[i]^2 in sixteen partial sums, i modulo 16, each ascending, then folded: lanes 8 apart, 4, 2, 1.
// len(x) need not be a multiple of 16.
func sumSquaresGo(x []float32) float32 {
	var part [16]float32
	for i, v := range x {
		part[i%16] += float32(v * v)
	}
	return fold(&part)
}

// fold adds sixteen partial sums: lane i and i+8, then 4, 2 and 1 apart.
func fold(part *[16]float32) float32 {
	for step := 8; step > 0; step /= 2 {
		for i := range step {
			part[i] += part[i+step]
		}
	}
	return part[0]
}

// normScale is 1/sqrt(sum/width + eps), each operator rounded once.
func normScale(sum float32, width int, eps float32) float32 {
	return 1 / float32(math.Sqrt(float64(float32(sum/float32(width))+eps)))
}

// scaleGo is y = (x*r)*g.
func scaleGo(y, x, g []float32, r float32) {
	for i, v := range x {
		y[i] = float32(v*r) * g[i]
	}
}

// addGo is s = x + y.
func addGo(s, x, y []float32) {
	for i, v := range x {
		s[i] = v + y[i]
	}
}
