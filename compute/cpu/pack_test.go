package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"memra/quant"
)

// randomRows makes file data of a format: rows of normal values, quantised.
func randomRows(t testing.TB, rng *rand.Rand, f *quant.Format, rows, width int) []byte {
	t.Helper()
	size, err := f.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	data, values := make([]byte, rows*size), make([]float32, width)
	for r := range rows {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		f.Quantize(data[r*size:][:size], values, nil)
	}
	return data
}

// eachLayout runs a test for every packed layout, with the format that it holds.
func eachLayout(t *testing.T, test func(t *testing.T, l *layout, f *quant.Format)) {
	for _, l := range layouts {
		for _, format := range l.formats {
			f, err := quant.For(format)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(format.String(), func(t *testing.T) { test(t, l, f) })
		}
	}
}

func openTest(t testing.TB, threads int, k *kernels) *Device {
	t.Helper()
	d, err := open(threads, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestPackedRowsUnpackToWhatTheFileSays(t *testing.T) {
	d := openTest(t, 1, &goKernels)
	eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
		const rows, width = 37, 512 // the last group is not full
		data := randomRows(t, rand.New(rand.NewPCG(1, 2)), f, rows, width)
		w, err := d.Pack(f.Type, rows, width, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, want := make([]float32, width), make([]float32, width)
		for r := range rows {
			w.Mem.(*packed).row(got, r)
			f.Dequantize(want, data[r*len(data)/rows:][:len(data)/rows])
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("row %d value %d: %v, want %v", r, i, got[i], want[i])
				}
			}
		}
	})
}
