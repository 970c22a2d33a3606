package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// rowsOf makes a tensor of a step of random values.
func rowsOf(s *step, rng *rand.Rand, rows, width int) (compute.Tensor, []float32) {
	x, m := s.tensor(rows, width)
	for i := range m.rows {
		m.rows[i] = float32(rng.NormFloat64())
	}
	return x, m.rows
}

func TestSumsRoundTheirTwoOperators(t *testing.T) {
	for _, scale := range []float32{1, 0.70710677, 0.0123} {
		d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(4, 4))
		var a, b []float32
		rows := runStep(t, d, func(s *step) compute.Tensor {
			x, av := rowsOf(s, rng, 21, 70)
			y, bv := rowsOf(s, rng, 21, 70)
			a, b = append(a, av...), append(b, bv...) // the sum may take x's place
			return s.Add(x, y, scale)
		})
		for r, row := range rows {
			for i, got := range row {
				exact := float64(scale) * (float64(a[r*70+i]) + float64(b[r*70+i]))
				if limit := 2 * 0x1p-24 * math.Abs(exact); !(math.Abs(float64(got)-exact) <= limit) {
					t.Fatalf("scale %v row %d value %d: %v, float64 gives %v, at most %v apart", scale, r, i, got, exact, limit)
				}
			}
		}
	}
}

func TestColumnsAreAPartOfEachRow(t *testing.T) {
	d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(5, 5))
	var x []float32
	for r, row := range runStep(t, d, func(s *step) compute.Tensor {
		in, values := rowsOf(s, rng, 19, 96)
		x = values
		return s.Columns(in, 32, 48)
	}) {
		wantEqual(t, "a row", row, x[r*96+32:][:48])
	}
}

func TestNormIsOfEachGroupOfAsManyValuesAsTheGainHas(t *testing.T) {
	const groups, width, eps = 3, 48, 1e-5
	d, rng := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(6, 6))
	gain := make([]float32, width)
	for i := range gain {
		gain[i] = float32(1 + rng.NormFloat64()/4)
	}
	var x []float32
	for r, row := range runStep(t, d, func(s *step) compute.Tensor {
		in, values := rowsOf(s, rng, 11, groups*width)
		x = append(x, values...)
		return s.Norm(in, d.Vector(gain), eps)
	}) {
		for g := range groups {
			var squares float64
			in := x[(r*groups+g)*width:][:width]
			for _, v := range in {
				squares += float64(v) * float64(v)
			}
			for i, v := range in {
				want := float64(gain[i]) * float64(v) / math.Sqrt(squares/width+eps)
				// The sum makes at most 3+4 roundings on the way, which the root halves; six more follow.
				if limit := 10 * 0x1p-24 * math.Abs(want); !(math.Abs(float64(row[g*width+i])-want) <= limit) {
					t.Fatalf("row %d group %d value %d: %v, float64 gives %v, at most %v apart", r, g, i, row[g*width+i], want, limit)
				}
			}
		}
	}
}

func TestALayerWithoutKeysTurnsItsQueriesAlike(t *testing.T) {
	const dim = 32
	d := openTest(t, 2, sets[0])
	rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: dim})
	if err != nil {
		t.Fatal(err)
	}
	turned := func(keys bool) (rows [][]float32) {
		b := new(compute.Batch)
		for r := range 5 {
			b.Add(0, 7*r, 0, false)
		}
		for _, row := range runStep(t, d, func(s *step) compute.Tensor {
			rng := rand.New(rand.NewPCG(7, 7))
			q, _ := rowsOf(s, rng, 5, 2*dim)
			var k compute.Tensor
			if keys {
				k, _ = rowsOf(s, rng, 5, dim)
			}
			q, k = s.QKNormRope(b, q, k, compute.QK{HeadDim: dim, Rope: rope})
			if k.IsZero() == keys {
				t.Errorf("keys %v, want %v", !k.IsZero(), keys)
			}
			return q
		}) {
			rows = append(rows, append([]float32(nil), row...))
		}
		return rows
	}
	alone := turned(false)
	for r, row := range turned(true) {
		wantEqual(t, "queries", alone[r], row)
	}
}
