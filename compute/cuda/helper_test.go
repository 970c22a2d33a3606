package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/quant"
)

// gpu opens GPU 0, or skips the test.
func gpu(t testing.TB) *Device {
	t.Helper()
	if err := Available(); err != nil {
		t.Skip(err)
	}
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// random is n standard normal values.
func random(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// rows brings values to the device as a tensor, as if an operation had made it.
func (s *step) tensor(values []float32, width int) compute.Tensor {
	host, at, err := s.inputs.take(s.Device, 4*len(values))
	if err != nil {
		s.fail(err)
		return compute.Tensor{}
	}
	for i, v := range values {
		b := math.Float32bits(v)
		host[4*i], host[4*i+1], host[4*i+2], host[4*i+3] = byte(b), byte(b>>8), byte(b>>16), byte(b>>24)
	}
	return compute.Tensor{Rows: len(values) / width, Width: width, Mem: &buffer{home: s.at, rows: at}}
}

// compute runs operations and returns a copy of the rows, end to end.
func (d *Device) compute(t testing.TB, f func(s *step) compute.Tensor) []float32 {
	t.Helper()
	rows, err := d.Run(func(ops compute.Ops) compute.Tensor { return f(ops.(*step)) })
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

// bitsEqual reports the first difference of bits.
func bitsEqual(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	differ, first := 0, -1
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			if differ++; first < 0 {
				first = i
			}
		}
	}
	if differ > 0 {
		t.Errorf("%s: %d of %d values differ, value %d is %v, want %v", what, differ, len(got), first, got[first], want[first])
	}
}

// relative is the norm of the difference over the norm of the truth; NaN if anything is NaN.
func relative(got []float32, want []float64) float64 {
	var d, n float64
	for i, w := range want {
		d += (float64(got[i]) - w) * (float64(got[i]) - w)
		n += w * w
	}
	if len(got) != len(want) {
		return math.NaN()
	}
	return math.Sqrt(d / n)
}

func closeTo(t testing.TB, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	if e := relative(got, want); !(e <= tolerance) {
		t.Errorf("%s: relative error %.2g, want at most %.2g (first value %v, want %v)", what, e, tolerance, got[0], want[0])
	}
}

// half rounds to f16.
func half(x float32) float32 { return quant.F16ToF32(quant.F32ToF16(x)) }

// pageTables are so many pages of each sequence, one sequence after another.
func pageTables(sequences, pages int) [][]int32 {
	tables := make([][]int32, sequences)
	for i := range tables {
		for j := range pages {
			tables[i] = append(tables[i], int32(i*pages+j))
		}
	}
	return tables
}
