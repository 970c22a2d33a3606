package compute

import (
	"math"
	"testing"
)

func TestRopeTurnsByPositionTimesFrequency(t *testing.T) {
	r, err := NewRope(RopeParams{Base: 10000, Dims: 8})
	if err != nil {
		t.Fatal(err)
	}
	cos, sin := r.Table([]int32{0, 7})
	for j := range 4 {
		angle := 7 * math.Pow(10000, -2*float64(j)/8)
		if cos[j] != 1 || sin[j] != 0 {
			t.Errorf("pair %d at position 0: cos %v sin %v, want 1 and 0", j, cos[j], sin[j])
		}
		if c, s := cos[4+j], sin[4+j]; math.Abs(float64(c)-math.Cos(angle)) > 6e-8 || math.Abs(float64(s)-math.Sin(angle)) > 6e-8 {
			t.Errorf("pair %d at position 7: cos %v sin %v, want %v and %v", j, c, s, math.Cos(angle), math.Sin(angle))
		}
	}
}

func TestRopeRefusesWhatItCannotMean(t *testing.T) {
	for _, c := range []struct {
		name string
		p    RopeParams
	}{
		{"odd width", RopeParams{Base: 1e4, Dims: 7}},
		{"no base", RopeParams{Dims: 8}},
		{"divisors of another width", RopeParams{Base: 1e4, Dims: 8, Divisors: []float32{1, 2}}},
		{"unknown scaling", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "longrope", Factor: 2}}},
		{"no factor", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "linear"}}},
		{"yarn without its original context", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "yarn", Factor: 4}}},
		{"llama3 without its bounds", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "llama3", Factor: 8, Original: 8192}}},
	} {
		if r, err := NewRope(c.p); err == nil {
			t.Errorf("%s: got %+v, want an error", c.name, r)
		}
	}
}
