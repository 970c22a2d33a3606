package cuda

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"memra/compute"
)

// Chosen rows are what the matmuls see, so their products have a matmul's bits.
func TestChosenRowsHaveTheProductsOfAMatMulOnTheGPU(t *testing.T) {
	d := gpu(t)
	const n, k, places, rows = 300, 768, 128, 3
	for _, format := range allFormats() {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			w, err := d.Pack(format, n, k, blocks(t, format, n, k, 7), nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := d.NewChoice(w, places)
			if w.Mem.(*packed).layout == layoutF32 {
				if !errors.Is(err, compute.ErrNoChoice) {
					t.Errorf("from a weight that stays float32: %v, want %v", err, compute.ErrNoChoice)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			has, x := map[int32]int32{}, random(rows*k, 9)
			all := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
			for _, turn := range []struct{ places, rows []int32 }{
				{[]int32{3, 0, 127}, []int32{299, 17, 5}},
				{[]int32{19, 18, 77}, []int32{0, 1, 64}},
				{[]int32{0, 19, 19}, []int32{50, 17, 17}}, // rows that had places lose them, or get others
			} {
				for i, p := range turn.places {
					has[p] = turn.rows[i]
				}
				var got []float32
				for range 3 { // eager, captured, replayed
					got = d.compute(t, func(s *step) compute.Tensor {
						s.Choose(c, turn.places, turn.rows)
						return s.MatMulChosen(s.tensor(x, k), c)
					})
				}
				chosen := map[int32]bool{}
				for _, row := range has {
					chosen[row] = true
				}
				want := make([]float32, len(all))
				for i := range want {
					if want[i] = all[i]; !chosen[int32(i%n)] {
						want[i] = float32(math.Inf(-1))
					}
				}
				bitsEqual(t, "products", got, want)
			}
		})
	}
}

// launchChoices chooses rows of a weight of each layout.
func launchChoices(t *testing.T, d *Device) {
	for _, format := range allFormats() {
		w, err := d.Pack(format, 128, 256, blocks(t, format, 128, 256, 7), nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.Mem.(*packed).layout == layoutF32 {
			continue
		}
		c, err := d.NewChoice(w, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Run(func(ops compute.Ops) compute.Tensor {
			ops.Choose(c, []int32{5, 0}, []int32{100, 1})
			return ops.MatMulChosen(ops.Embed(rowsAt(4, 3), w, 1), c)
		}); err != nil {
			t.Fatal(err)
		}
	}
}
