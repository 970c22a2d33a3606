package quant

import "math"

// largest returns the largest magnitude of the values.
func largest(src []float32) float32 { return abs(extreme(src)) }

// extreme returns the value of the largest magnitude, with its sign; of several, the first.
func extreme(src []float32) float32 {
	var most float32
	for _, x := range src {
		if abs(x) > abs(most) {
			most = x
		}
	}
	return most
}

// span returns the smallest and the largest value.
func span(src []float32) (low, high float32) {
	low, high = src[0], src[0]
	for _, x := range src[1:] {
		low, high = min(low, x), max(high, x)
	}
	return low, high
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// inverse returns 1/d, and 0 for 0: a block of zeros gets codes of zero.
func inverse[T float32 | float64](d T) T {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// clamp limits x to [low, high]; NaN becomes low. The conversion to an integer after it is then the same everywhere.
func clamp[T float32 | float64](x, low, high T) T {
	if !(x > low) {
		return low
	}
	return min(x, high)
}

// code cuts x, which includes the half that makes cutting rounding, down to an integer of 0 to top.
func code(x float32, top float32) byte { return byte(clamp(x, 0, top)) }
