package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/quant"
)

// assembly is the kernel sets of this machine that are not the reference.
func assembly(t testing.TB) []*kernels {
	t.Helper()
	if len(sets) == 1 {
		t.Skip("this machine has no assembly")
	}
	return sets[:len(sets)-1]
}

// sameBits reports whether two results are one: equal bits, or both NaN, whose payloads nothing defines.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || (a != a && b != b)
}

// activations fill rows of a matmul's left side.
var activations = []struct {
	name string
	fill func(rng *rand.Rand, row int, x []float32)
}{
	{"normal values", normal},
	{"blocks at their extremes", func(rng *rand.Rand, row int, x []float32) {
		for i := range x {
			x[i] = float32(1 - 2*((i/(row%3+1))%2)) // each quantises to 127 or -127
		}
	}},
	{"one sign", func(rng *rand.Rand, row int, x []float32) {
		for i := range x {
			x[i] = float32(1 - 2*(row%2))
		}
	}},
	{"zeros here and there", func(rng *rand.Rand, row int, x []float32) {
		normal(rng, row, x)
		for i := range x {
			if i/blockLen%3 == row%3 {
				x[i] = 0
			}
		}
	}},
	{"scales from tiny to huge", func(rng *rand.Rand, row int, x []float32) {
		for i := range x {
			x[i] = float32(math.Ldexp(rng.NormFloat64(), (i/blockLen*37+row*11)%240-120))
		}
	}},
	{"rows of NaN and infinity beside others", func(rng *rand.Rand, row int, x []float32) {
		normal(rng, row, x)
		switch row % 4 {
		case 1:
			x[rng.IntN(len(x))] = float32(math.NaN())
		case 2:
			x[rng.IntN(len(x))] = float32(math.Inf(1))
		}
	}},
}

func normal(rng *rand.Rand, _ int, x []float32) {
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
}

// randomBytes is file data of any content: integers at random or all least or greatest, scales of any size, some NaN.
func randomBytes(_ testing.TB, rng *rand.Rand, f *quant.Format, rows, width int) []byte {
	size, _ := f.RowBytes(width)
	data := make([]byte, rows*size)
	for i := 0; i < len(data); {
		run, same := 1+rng.IntN(64), rng.IntN(2) == 0
		b := []byte{0x00, 0xff, 0x80, 0x7f}[rng.IntN(4)]
		for ; run > 0 && i < len(data); run, i = run-1, i+1 {
			data[i] = b
			if !same {
				data[i] = byte(rng.Uint32())
			}
		}
	}
	return data
}

// widths are values of K: odd numbers of blocks; for floats, numbers that no unrolling divides.
func widths(l *layout) []int {
	switch l.step {
	case 1:
		return []int{1, 2, 3, 5, 32, 67, 576, 2048}
	case 256:
		return []int{256, 768, 2048}
	}
	return []int{32, 64, 96, 576, 2048}
}

// tileOf makes the rowTile of rows of activations from row `first` on, as the driver does.
func tileOf(l *layout, x []float32, rows, first, width int) *rowTile {
	t := &rowTile{rows: rows, first: first, k: width}
	if l.float {
		t.float = x[first*width:]
		return t
	}
	t.panel = make([]panelBlock, width/blockLen)
	for r := range len(x) / width {
		quantizeRowGo(t.panel, r, x[r*width:][:width])
	}
	return t
}

func TestAssemblyEqualsPlainGoInEveryBit(t *testing.T) {
	const guard = 0x1.23p45
	for _, set := range assembly(t) {
		t.Run(set.name, func(t *testing.T) {
			eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
				rng := rand.New(rand.NewPCG(3, 4))
				d := openTest(t, 1, set)
				for _, width := range widths(l) {
					for _, data := range []func(testing.TB, *rand.Rand, *quant.Format, int, int) []byte{randomRows, randomBytes} {
						w, err := d.Pack(f.Type, group, width, data(t, rng, f, group, width))
						if err != nil {
							t.Fatal(err)
						}
						for _, a := range activations {
							x := make([]float32, panelRows*width)
							for r := range panelRows {
								a.fill(rng, r, x[r*width:][:width])
							}
							for _, tile := range set.dot[l] {
								for first := 0; first+tile.rows <= panelRows; first++ {
									const stride = group + 3
									in := tileOf(l, x, tile.rows, first, width)
									got, want := make([]float32, tile.rows*stride), make([]float32, tile.rows*stride)
									for i := range got {
										got[i], want[i] = guard, guard
									}
									tile.dot(got, stride, w.Mem.(*packed).data, in)
									goKernels.dot[l][0].dot(want, stride, w.Mem.(*packed).data, in)
									for i := range want {
										if !sameBits(got[i], want[i]) {
											t.Fatalf("K %d, %s, %d rows from %d: row %d output %d: %v, want %v", width, a.name,
												tile.rows, first, i/stride, i%stride, got[i], want[i])
										}
									}
								}
							}
						}
					}
				}
			})
		})
	}
}

// matMul runs a matmul alone.
func matMul(t testing.TB, d *Device, x []float32, w compute.Weight) []float32 {
	t.Helper()
	rows := len(x) / w.Width
	y, err := d.Run(func(ops compute.Ops) compute.Tensor {
		in, b := ops.(*step).tensor(rows, w.Width)
		copy(b.rows, x)
		return ops.MatMul(in, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, row := range y {
		all = append(all, row...)
	}
	return all
}

// BenchmarkMatMul runs a weight larger than the caches: at one row the floor is the memory's bandwidth, at many the processor's
// products. MB/s counts the packed weight.
func BenchmarkMatMul(b *testing.B) {
	const n, k = 32768, 2048
	for _, set := range sets[:max(1, len(sets)-1)] {
		d := openTest(b, 0, set)
		for _, l := range layouts {
			f, err := quant.For(l.formats[0])
			if err != nil {
				b.Fatal(err)
			}
			size, _ := f.RowBytes(k)
			w, err := d.Pack(f.Type, n, k, make([]byte, n*size))
			if err != nil {
				b.Fatal(err)
			}
			for _, rows := range []int{1, 2, 4, 8, 512} {
				b.Run(fmt.Sprintf("%s/%s/rows=%d", set.name, l.name, rows), func(b *testing.B) {
					x := make([]float32, rows*k)
					for i := range x {
						x[i] = float32(i%17 - 8)
					}
					b.SetBytes(int64(w.Bytes))
					for b.Loop() {
						matMul(b, d, x, w)
					}
					b.ReportMetric(2*n*k*float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOP/s")
				})
			}
		}
	}
}
