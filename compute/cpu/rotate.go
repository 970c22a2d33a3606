package cpu

import "memra/compute"

// rotate turns one head in place. cos and sin are of the row's position, a value a pair. Each pair (a, b):
//
//	a' = a*cos - b*sin    b' = a*sin + b*cos        products rounded, then the sum
func (k *kernels) rotate(head []float32, r *compute.Rope, cos, sin []float32) {
	half := r.Dims / 2
	if r.Neighbour {
		k.rotateNeighbours(head[:r.Dims], cos[:half], sin[:half])
		return
	}
	k.rotateHalves(head[:half], head[half:][:half], cos[:half], sin[:half])
}

// rotateHalvesGo turns the pairs (lo[j], hi[j]).
func rotateHalvesGo(lo, hi, cos, sin []float32) {
	for j, a := range lo {
		b := hi[j]
		lo[j] = float32(a*cos[j]) - float32(b*sin[j])
		hi[j] = float32(a*sin[j]) + float32(b*cos[j])
	}
}

// rotateNeighboursGo turns the pairs (x[2j], x[2j+1]).
func rotateNeighboursGo(x, cos, sin []float32) {
	for j, c := range cos {
		a, b := x[2*j], x[2*j+1]
		x[2*j] = float32(a*c) - float32(b*sin[j])
		x[2*j+1] = float32(a*sin[j]) + float32(b*c)
	}
}
