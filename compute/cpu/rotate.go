package cpu

import "memra/compute"

// rotate turns one head in place. cos and sin are of the row's position, a value a pair. Each pair (a, b):
//
//	a' = a*cos - b*sin    b' = a*sin + b*cos        products rounded, then the sum
func rotate(head []float32, r *compute.Rope, cos, sin []float32) {
	half := r.Dims / 2
	if r.Neighbour {
		for j := range half {
			a, b := head[2*j], head[2*j+1]
			head[2*j] = float32(a*cos[j]) - float32(b*sin[j])
			head[2*j+1] = float32(a*sin[j]) + float32(b*cos[j])
		}
		return
	}
	lo, hi := head[:half], head[half:][:half]
	for j, a := range lo {
		b := hi[j]
		lo[j] = float32(a*cos[j]) - float32(b*sin[j])
		hi[j] = float32(a*sin[j]) + float32(b*cos[j])
	}
}
