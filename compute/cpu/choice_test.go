package cpu

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/gguf"
)

// packedRandom is a weight of random values in a format, and the values as they are in it.
func packedRandom(t *testing.T, d *Device, rng *rand.Rand, typ gguf.Type, rows, width int) (compute.Weight, [][]float32) {
	t.Helper()
	w, err := d.Pack(typ, rows, width, randomRows(t, rng, format(t, typ), rows, width), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := make([][]float32, rows)
	for r := range all {
		all[r] = make([]float32, width)
		w.Mem.(*packed).row(all[r], r)
	}
	return w, all
}

// Rounding a weight and a row to 8 bits errs by 1/254 of the largest of 32 values each, which of normal ones is about 2: 0.8 % of a product's size
// at random, five times that at most here.
func TestChosenRowsAreMultipliedAndOthersAreNot(t *testing.T) {
	const rows, width, places = 100, 512, 20
	for _, k := range sets {
		for _, format := range []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.BF16, gguf.F32} {
			d, rng := openTest(t, 2, k), rand.New(rand.NewPCG(3, 3))
			w, values := packedRandom(t, d, rng, format, rows, width)
			c, err := d.NewChoice(w, places)
			if err != nil {
				t.Fatal(err)
			}
			has := map[int32]int32{} // row by place
			for _, turn := range []struct{ places, rows []int32 }{
				{nil, nil},
				{[]int32{3, 0}, []int32{99, 17}},
				{[]int32{19, 18, 4}, []int32{0, 1, 2}},
				{[]int32{0, 19, 19}, []int32{50, 17, 17}}, // rows that had places lose them, or get others
			} {
				for i, p := range turn.places {
					has[p] = turn.rows[i]
				}
				var x []float32
				got := runStep(t, d, func(s *step) compute.Tensor {
					s.Choose(c, turn.places, turn.rows)
					in, v := rowsOf(s, rng, 3, width)
					x = append(x, v...)
					return s.MatMulChosen(in, c)
				})
				alone := runStep(t, d, func(s *step) compute.Tensor {
					in, m := s.tensor(1, width)
					copy(m.rows, x[2*width:])
					return s.MatMulChosen(in, c)
				})
				wantEqual(t, "a row alone", alone[0], got[2])
				chosen := map[int32]bool{}
				for _, row := range has {
					chosen[row] = true
				}
				for r, y := range got {
					for o, v := range y {
						if !chosen[int32(o)] {
							if !math.IsInf(float64(v), -1) {
								t.Fatalf("%s, %v: row %d, output %d is %v, want -Inf: it was not chosen", k.name, format, r, o, v)
							}
							continue
						}
						want := 0.0
						for i, w := range values[o] {
							want += float64(w) * float64(x[r*width+i])
						}
						if math.Abs(float64(v)-want) > 0.04*math.Sqrt(width) {
							t.Fatalf("%s, %v: row %d, output %d is %v, want %v", k.name, format, r, o, v, want)
						}
					}
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestRowsThatCannotBeChosenAreRefused(t *testing.T) {
	d, rng := openTest(t, 1, sets[0]), rand.New(rand.NewPCG(4, 4))
	odd, _ := packedRandom(t, d, rng, gguf.F32, 10, 40)
	plain, _ := packedRandom(t, d, rng, gguf.F32, 10, 64)
	biased := plain
	biased.Bias = d.Vector(make([]float32, 10))
	for _, c := range []struct {
		name   string
		w      compute.Weight
		places int
		form   bool // of the weight
	}{
		{"a width that is no multiple of 32", odd, 5, true},
		{"a bias", biased, 5, true},
		{"no place", plain, 0, false},
		{"more places than rows", plain, 11, false},
	} {
		if _, err := d.NewChoice(c.w, c.places); err == nil || errors.Is(err, compute.ErrNoChoice) != c.form {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
