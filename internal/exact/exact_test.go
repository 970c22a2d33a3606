package exact

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFunctionsAgreeWithMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name      string
		draw      func() float64
		got, want func(float64) float64
		absolute  bool // the error is measured against 1, not against the result
	}{
		{"sin of a position near zero", func() float64 { return rng.Float64() * 10 }, sin, math.Sin, true},
		{"sin of a position beyond a million", func() float64 { return rng.Float64() * 1.5e6 }, sin, math.Sin, true},
		{"cos of a negative position", func() float64 { return -rng.Float64() * 1e6 }, cos, math.Cos, true},
		{"exp over its whole range", func() float64 { return rng.Float64()*1400 - 700 }, Exp, math.Exp, false},
		{"exp near zero", func() float64 { return rng.NormFloat64() * 1e-3 }, Exp, math.Exp, false},
		{"log of small and large", func() float64 { return math.Exp(rng.Float64()*1400 - 700) }, Log, math.Log, false},
		{"log near one", func() float64 { return 1 + rng.NormFloat64()*1e-3 }, Log, math.Log, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20000 {
				x := c.draw()
				got, want := c.got(x), c.want(x)
				scale := math.Abs(want)
				if c.absolute {
					scale = 1
				}
				if math.Abs(got-want) > 5e-16*scale {
					t.Fatalf("f(%v) = %v, want %v", x, got, want)
				}
			}
		})
	}
}

func TestEdgesFollowMath(t *testing.T) {
	for _, x := range []float64{0, math.Inf(1), math.Inf(-1), math.NaN(), 710, -746, -745, 5e-324, -1} {
		if got, want := Exp(x), math.Exp(x); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
		if x == 5e-324 {
			continue // math.Log's assembly takes it for a normal number
		}
		if got, want := Log(x), math.Log(x); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
	}
}

func sin(x float64) float64 { s, _ := SinCos(x); return s }
func cos(x float64) float64 { _, c := SinCos(x); return c }
