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

func TestLongRopeDividesEachPairAndSharpens(t *testing.T) {
	r, err := NewRope(RopeParams{Base: 10000, Dims: 4, Divisors: []float32{1, 8}, Scaling: RopeScaling{Type: "longrope", Attention: 1.25}})
	if err != nil {
		t.Fatal(err)
	}
	cos, sin := r.Table([]int32{5})
	for j, angle := range []float64{5, 5 * 0.01 / 8} {
		if c, s := float64(cos[j]), float64(sin[j]); math.Abs(c-1.25*math.Cos(angle)) > 2e-7 || math.Abs(s-1.25*math.Sin(angle)) > 2e-7 {
			t.Errorf("pair %d: cos %v sin %v, want %v and %v", j, c, s, 1.25*math.Cos(angle), 1.25*math.Sin(angle))
		}
	}
}

// What multiplies cosine and sine may be said as a whole, or as a multiplier on top of 1 + ln(factor)/10.
func TestYarnIsAsSharpAsItIsToldInEitherWay(t *testing.T) {
	for _, c := range []struct{ factor, attention, want float64 }{{0, 0, 1 + 0.1*math.Log(4)}, {0.5, 0, 0.5 * (1 + 0.1*math.Log(4))}, {0.5, 0.9, 0.9}} {
		r, err := NewRope(RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "yarn", Factor: 4, Original: 32, AttnFactor: c.factor, Attention: c.attention}})
		if err != nil || r.Scale != float32(c.want) {
			t.Errorf("attn_factor %v, attention factor %v: %v, %v, want %v", c.factor, c.attention, r, err, c.want)
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
		{"unknown scaling", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "spiral", Factor: 2}}},
		{"longrope without divisors", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "longrope", Attention: 1}}},
		{"longrope that does not say how sharp", RopeParams{Base: 1e4, Dims: 4, Divisors: []float32{1, 2}, Scaling: RopeScaling{Type: "longrope"}}},
		{"no factor", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "linear"}}},
		{"yarn without its original context", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "yarn", Factor: 4}}},
		{"llama3 without its bounds", RopeParams{Base: 1e4, Dims: 8, Scaling: RopeScaling{Type: "llama3", Factor: 8, Original: 8192}}},
	} {
		if r, err := NewRope(c.p); err == nil {
			t.Errorf("%s: got %+v, want an error", c.name, r)
		}
	}
}
