package cuda

import (
	"math"
	"testing"

	"memra/compute"
	"memra/gguf"
)

func TestSumsAndColumnsHaveTheCPUsBits(t *testing.T) {
	d := gpu(t)
	const rows, width = 9, 1544
	x, y := random(rows*width, 1), random(rows*width, 2)
	for _, scale := range []float32{1, 0.70710677, 0.0123} {
		want := make([]float32, len(x))
		for i := range x {
			want[i] = (x[i] + y[i]) * scale
		}
		got := d.compute(t, func(s *step) compute.Tensor { return s.Add(s.tensor(x, width), s.tensor(y, width), scale) })
		bitsEqual(t, "sum", got, want)
	}
	var want []float32
	for r := range rows {
		want = append(want, x[r*width+1024:][:264]...)
	}
	bitsEqual(t, "columns", d.compute(t, func(s *step) compute.Tensor { return s.Columns(s.tensor(x, width), 1024, 264) }), want)
}

// A sum is a residual stream, which may leave f16: a matmul reads it all the same.
func TestASumThatLeavesHalfPrecisionIsReadSmaller(t *testing.T) {
	d := gpu(t)
	const width = 64
	x, zero := random(width, 3), make([]float32, width)
	for i := range x {
		x[i] *= 1e5
	}
	var want []float64
	for _, v := range x {
		want = append(want, float64(v))
	}
	got := d.compute(t, func(s *step) compute.Tensor {
		sum := s.Add(s.tensor(x, width), s.tensor(zero, width), 1)
		b := s.asOperand(sum)
		return compute.Tensor{Rows: 1, Width: width, Mem: &buffer{home: b.home, operand: b.operand, tile: b.tile, scale: b.scale}}
	})
	closeTo(t, "the operand", got, want, 5e-4)
}

func TestNormOfHeadsAgreesWithFloat64(t *testing.T) {
	d := gpu(t)
	for _, dim := range []int{16, 80, 256, 512} {
		const heads, eps = 7, 1e-6
		x, g := random(3*heads*dim, 4), random(dim, 5)
		var want []float64
		for at := 0; at < len(x); at += dim {
			var squares float64
			for _, v := range x[at:][:dim] {
				squares += float64(v) * float64(v)
			}
			for i, v := range x[at:][:dim] {
				want = append(want, float64(g[i])*float64(v)/math.Sqrt(squares/float64(dim)+eps))
			}
		}
		gain := d.Vector(g)
		got := d.compute(t, func(s *step) compute.Tensor { return s.Norm(s.tensor(x, heads*dim), gain, eps) })
		closeTo(t, "norm of heads", got, want, 3e-7)
	}
}

// A residual stream is made before the layers and lives as long as the step: what a layer makes of it must not.
func TestAResidualStreamThatMatmulsReadTakesNoMemoryALayer(t *testing.T) {
	d := openFake(t, newFake())
	const rows, width = 64, 512
	w, err := d.Pack(gguf.F16, width, width, make([]byte, 2*width*width), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := func(layers int) (bytes int) {
		d.compute(t, func(s *step) compute.Tensor {
			x := s.tensor(make([]float32, rows*width), width)
			for i := range layers {
				s.Layer(i)
				x = s.Add(x, x, 1)
				x = s.Add(x, s.MatMul(x, w), 1)
			}
			bytes = s.arenas[0].used
			return compute.Tensor{}
		})
		return bytes
	}
	if few, many := taken(2), taken(20); few != many {
		t.Errorf("%d bytes before the layers of 2, %d before those of 20", few, many)
	}
}
