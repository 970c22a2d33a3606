package cuda

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// dequantized is a weight as package quant reads it.
func dequantized(t testing.TB, format gguf.Type, data []byte, n int) []float32 {
	t.Helper()
	f, err := quant.For(format)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, n)
	f.Dequantize(v, data)
	return v
}

// product is x·Wᵀ in float64.
func product(x, w []float32, k int) []float64 {
	rows, n := len(x)/k, len(w)/k
	y := make([]float64, rows*n)
	parallel(rows, func(r int) {
		for o := range n {
			var sum float64
			for i, v := range x[r*k:][:k] {
				sum += float64(v) * float64(w[o*k+i])
			}
			y[r*n+o] = sum
		}
	})
	return y
}

// Of a product, the weight's scale, the weight and x are rounded to f16, 2^-12·√3 of a value at random, and as much again for a
// minimum and the code it is added to; sums in f32 add less. A wrong index is an error of 1.
const matMulTolerance = 8e-4

func TestMatMulAgreesWithFloat64InEveryFormat(t *testing.T) {
	d := gpu(t)
	for _, format := range allFormats() {
		for _, c := range []struct{ n, k, rows int }{{100, 768, 3}, {64, 256, 1}, {200, 1280, 40}} {
			t.Run(fmt.Sprintf("%v %dx%d, %d rows", format, c.n, c.k, c.rows), func(t *testing.T) {
				data := blocks(t, format, c.n, c.k, 7)
				w, err := d.Pack(format, c.n, c.k, data, nil)
				if err != nil {
					t.Fatal(err)
				}
				x := random(c.rows*c.k, 9)
				got := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, c.k), w) })
				closeTo(t, "y", got, product(x, dequantized(t, format, data, c.n*c.k), c.k), matMulTolerance)
			})
		}
	}
}

// Widths that no tile divides; magnitudes far outside of f16.
func TestMatMulTakesAnyWidthAndRange(t *testing.T) {
	d := gpu(t)
	for _, format := range []gguf.Type{gguf.F16, gguf.BF16, gguf.F32, gguf.Q8_0} {
		for _, magnitude := range []float32{1e-3, 1, 1e-9, 1e7} {
			if format == gguf.F16 && magnitude != 1 || format == gguf.Q8_0 && (magnitude < 1e-3 || magnitude > 1) {
				continue // the file's own scales
			}
			const n, k, rows = 70, 96, 9
			values := random(n*k, 3)
			for i := range values {
				values[i] *= magnitude
			}
			f, _ := quant.For(format)
			bytes, _ := f.RowBytes(k)
			data := make([]byte, n*bytes)
			f.Quantize(data, values, nil)
			w, err := d.Pack(format, n, k, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := random(rows*k, 5)
			got := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
			closeTo(t, fmt.Sprintf("%v of magnitude %g", format, magnitude), got, product(x, dequantized(t, format, data, n*k), k), matMulTolerance)
		}
	}
}

// R1 and R2: a row's bits do not depend on how many rows come with it, which, or where it stands.
func TestMatMulOfARowIsTheSameInAnyCompany(t *testing.T) {
	d := gpu(t)
	const n, k, most = 200, 1344 - 64, 500
	x := random(most*k, 11)
	for i := range k { // a row of NaN between the others
		x[300*k+i] = float32(math.NaN())
	}
	for _, format := range allFormats() {
		w, err := d.Pack(format, n, k, blocks(t, format, n, k, 13), nil)
		if err != nil {
			t.Fatal(err)
		}
		all := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
		for _, rows := range []int{1, 2, 7, 9, 17, 33, 64, 65, 129} {
			first := 450 - rows
			if rows > 100 {
				first = 0
			}
			got := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x[first*k:][:rows*k], k), w) })
			bitsEqual(t, fmt.Sprintf("%v: rows %d to %d alone", format, first, first+rows-1), got, all[first*n:][:rows*n])
		}
	}
}

// What one kernel sums, the other sums in the same order: every tile of rows, segments that end early, weights that fill no tile,
// tiles that blocks share and tiles that they do not, siblings and none.
func TestEveryMatMulKernelGivesTheBitsOfThePlainOne(t *testing.T) {
	d := gpu(t)
	for _, c := range []struct {
		k    int
		n    []int
		rows []int
	}{
		{1280, []int{200}, []int{1, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 500}},
		{256, []int{64, 70, 130}, []int{1, 7, 20, 64, 200}},
		{1024 + 256, []int{1000, 136}, []int{2, 13, 40, 300, 4096}},
		{5120, []int{640, 64, 72}, []int{1, 16, 24, 50, 100}},
		{512, []int{40000}, []int{3, 64}},
		{1280, []int{22000}, []int{32, 64}}, // all whole
		{1280, []int{36000}, []int{32, 64}}, // most whole
	} {
		most := slices.Max(c.rows)
		x := random(most*c.k, 31)
		for format := range sources {
			if c.n[0] >= 20000 && format != gguf.Q8_0 {
				continue
			}
			var weights []compute.Weight
			for i, n := range c.n {
				w, err := d.Pack(format, n, c.k, blocks(t, format, n, c.k, uint64(33+i)), nil)
				if err != nil {
					t.Fatal(err)
				}
				weights = append(weights, w)
			}
			for _, rows := range c.rows {
				for i := range weights {
					multiply := func(s *step) compute.Tensor {
						in := s.tensor(x[:rows*c.k], c.k)
						var y compute.Tensor
						for j, w := range weights {
							if z := s.MatMul(in, w); i == j {
								y = z
							}
						}
						return y
					}
					got := d.compute(t, multiply)
					d.step.plain = true
					want := d.compute(t, multiply)
					d.step.plain = false
					bitsEqual(t, fmt.Sprintf("%v %dx%d (weight %d of %d), %d rows", format, c.n[i], c.k, i, len(c.n), rows), got, want)
				}
			}
		}
	}
}

func TestSiblingsAreOneLaunch(t *testing.T) {
	d := openFake(t, newFake())
	pack := func(format gguf.Type, n int) compute.Weight {
		w, err := d.Pack(format, n, 512, blocks(t, format, n, 512, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	q, k, v, other := pack(gguf.Q4_K, 512), pack(gguf.Q4_K, 128), pack(gguf.Q4_K, 64), pack(gguf.Q6_K, 64)
	for _, c := range []struct {
		name    string
		weights []compute.Weight
		want    int
	}{{"q, k, v", []compute.Weight{q, k, v}, 1}, {"four", []compute.Weight{q, k, v, q}, 1}, {"five", []compute.Weight{q, k, v, q, k}, 2}, {"another layout", []compute.Weight{q, k, other}, 2}} {
		_, err := d.Run(func(ops compute.Ops) compute.Tensor {
			s := ops.(*step)
			x, _ := s.newOperand(3, 512, 1)
			for _, w := range c.weights {
				s.MatMul(x, w)
			}
			if len(s.launches) != c.want {
				t.Errorf("%s: %d launches, want %d", c.name, len(s.launches), c.want)
			}
			return compute.Tensor{}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEmbedIsTheWeightThatMatMulSees(t *testing.T) {
	d := gpu(t)
	const vocab, k = 130, 512
	for _, format := range allFormats() {
		data := blocks(t, format, vocab, k, 17)
		w, err := d.Pack(format, vocab, k, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := new(compute.Batch)
		var want []float64
		values := dequantized(t, format, data, vocab*k)
		for i, token := range []int32{0, 129, 63, 64, 7, 40, 100} {
			b.Add(token, i, 0, false)
			for _, v := range values[int(token)*k:][:k] {
				want = append(want, float64(v)*3.5)
			}
		}
		got := d.compute(t, func(s *step) compute.Tensor { return s.Embed(b, w, 3.5) })
		closeTo(t, format.String(), got, want, 1e-3)
	}
}

func TestAWeightLargerThanAPieceIsPackedLikeASmallOne(t *testing.T) {
	d := gpu(t)
	const n, k = 300, 1024
	x := random(3*k, 19)
	for _, format := range allFormats() {
		data := blocks(t, format, n, k, 17)
		var y [2][]float32
		for i, bytes := range []int{stageBytes, 128 * 4 * k} {
			for range stages { // forget the pieces there are
				*<-d.staging = stage{}
				d.staging <- new(stage)
			}
			d.stageBytes = bytes
			read := 0
			w, err := d.Pack(format, n, k, data, func(from, to int) {
				if from != read {
					t.Errorf("%v: bytes from %d on have been read, want from %d", format, from, read)
				}
				read = to
			})
			if err != nil {
				t.Fatal(err)
			}
			if read != len(data) {
				t.Errorf("%v: %d of %d bytes have been read", format, read, len(data))
			}
			y[i] = d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
		}
		bitsEqual(t, format.String(), y[1], y[0])
	}
}

func TestLogitsAreTheRowsThatAsk(t *testing.T) {
	d := gpu(t)
	const n, k, rows = 90, 256, 70
	w, err := d.Pack(gguf.Q8_0, n, k, blocks(t, gguf.Q8_0, n, k, 17), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := random(rows*k, 19)
	all := d.compute(t, func(s *step) compute.Tensor { return s.MatMul(s.tensor(x, k), w) })
	b := rowsAt(rows, 0)
	b.Logits = []int32{69, 3, 40}
	got := d.compute(t, func(s *step) compute.Tensor { return s.Logits(b, s.tensor(x, k), w) })
	for i, r := range b.Logits {
		bitsEqual(t, fmt.Sprintf("row %d", r), got[i*n:][:n], all[int(r)*n:][:n])
	}
}
