package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// math.Exp and math.Log are correct to within one unit in the last place (2.3e-16), which the bound leaves room for.
func relative(got, want float64) float64 {
	if got == want {
		return 0
	}
	return math.Abs(got-want) / math.Abs(want)
}

func TestExpAgreesWithMathExp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for i := range 500_000 {
		x := -708 * r.Float64()
		if i%2 == 0 {
			x = -math.Exp2(-40 * r.Float64())
		}
		worst = max(worst, relative(exp(x), math.Exp(x)))
	}
	if worst > 1e-15 {
		t.Errorf("worst relative error %.3g, want at most 1e-15", worst)
	}
	if exp(0) != 1 || exp(-708.5) != 0 || exp(math.Inf(-1)) != 0 {
		t.Errorf("exp(0), exp(-708.5), exp(-Inf) = %v, %v, %v, want 1, 0, 0", exp(0), exp(-708.5), exp(math.Inf(-1)))
	}
}

func TestLogAgreesWithMathLog(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	check := func(x float64) { worst = max(worst, relative(log(x), math.Log(x))) }
	for range 500_000 {
		check(r.Float64() + 0x1p-60)
		check(1 + (r.Float64()-0.5)*math.Exp2(-50*r.Float64())) // around 1, where the result is small
		check(math.Exp2(2000*r.Float64() - 1000))
		check(1 - (float64(r.Uint32())+0.5)*0x1p-32) // what gumbel asks
	}
	if worst > 1e-15 {
		t.Errorf("worst relative error %.3g, want at most 1e-15", worst)
	}
	if log(1) != 0 {
		t.Errorf("log(1) = %v, want 0", log(1))
	}
}

func TestLogAndExpKeepTheirBits(t *testing.T) {
	// A hash over many results: a changed order of operations, or a fused one on another machine, changes it.
	r := rand.New(rand.NewPCG(5, 6))
	h := uint64(14695981039346656037)
	for range 100_000 {
		for _, y := range []float64{exp(-50 * r.Float64()), gumbel(r.Uint32())} {
			h = (h ^ math.Float64bits(y)) * 1099511628211
		}
	}
	if want := uint64(0xd784a994bb14f636); h != want {
		t.Errorf("hash %#x, want %#x", h, want)
	}
}
