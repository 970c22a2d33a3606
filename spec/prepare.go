package spec

import "math/bits"

// prepares reports whether a device that pads steps like this prepares for each list of launches: then there is to be as little variety in what it
// is given as rows cost.
func prepares(padded func(rows int) int) bool { return padded(9) > 9 }

// powerOfTwo rounds up.
func powerOfTwo(n int) int {
	if n < 1 {
		return n
	}
	return 1 << bits.Len(uint(n-1))
}
