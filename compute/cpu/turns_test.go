package cpu

import (
	"testing"

	"memra/compute"
)

// What is kept of turns is what would be computed, also where positions take each other's places and ropes come and go.
func TestTurnsAreThoseOfTheTable(t *testing.T) {
	d := openTest(t, 1, sets[0])
	var ropes []*compute.Rope
	for i := range 10 {
		r, err := compute.NewRope(compute.RopeParams{Base: 1e4 + float64(i), Dims: 8 + 2*i})
		if err != nil {
			t.Fatal(err)
		}
		ropes = append(ropes, r)
	}
	for _, positions := range [][]int32{{0, 1, 2}, {64, 1, 128, 0}, {2, 66, 2, 130}, {7}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 71}} {
		for _, r := range append(ropes, ropes...) {
			runStep(t, d, func(s *step) compute.Tensor {
				b := &compute.Batch{}
				for _, p := range positions {
					b.Add(0, int(p), 0, false)
				}
				cos, sin := r.Table(positions)
				for range 2 {
					got := s.turnsOf(b, r)
					wantEqual(t, "cosines", got.cos, cos)
					wantEqual(t, "sines", got.sin, sin)
				}
				x, _ := s.tensor(1, 1)
				return x
			})
		}
	}
}
