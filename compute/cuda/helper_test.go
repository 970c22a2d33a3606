package cuda

import (
	"math/rand/v2"
)

// random is n standard normal values.
func random(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}
