package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
func randomBytes(rng *rand.Rand, f *quant.Format, rows, width int) []byte {
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
	for _, set := range assembly(t) {
		t.Run(set.name, func(t *testing.T) {
			eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
				rng := rand.New(rand.NewPCG(3, 4))
				d := openTest(t, 1, set)
				for _, width := range widths(l) {
					for _, data := range [][]byte{randomRows(t, rng, f, group, width), randomBytes(rng, f, group, width)} {
						w, err := d.Pack(f.Type, group, width, data, nil)
						if err != nil {
							t.Fatal(err)
						}
						for _, a := range activations {
							x := make([]float32, panelRows*width)
							for r := range panelRows {
								a.fill(rng, r, x[r*width:][:width])
							}
							if diff := tilesDiffer(set, l, w.Mem.(*packed).data, x, width); diff != "" {
								t.Fatalf("K %d, %s: %s", width, a.name, diff)
							}
						}
					}
				}
			})
		})
	}
}

// tilesDiffer runs each tile of a set on all runs of rows of a panel, and says where a result is not the reference's.
func tilesDiffer(set *kernels, l *layout, w []byte, x []float32, width int) string {
	const stride, guard = group + 3, 0x1.23p45
	want := make([]float32, panelRows*group)
	goKernels.dot[l][0].dot(want, group, w, tileOf(l, x, panelRows, 0, width))
	for _, tile := range set.dot[l] {
		for first := 0; first+tile.rows <= panelRows; first++ {
			got := make([]float32, tile.rows*stride)
			for i := range got {
				got[i] = guard
			}
			tile.dot(got, stride, w, tileOf(l, x, tile.rows, first, width))
			for i, y := range got {
				r, o := i/stride, i%stride
				switch {
				case o >= group && y != guard:
					return fmt.Sprintf("%d rows from %d: wrote behind row %d", tile.rows, first, r)
				case o < group && !sameBits(y, want[(first+r)*group+o]):
					return fmt.Sprintf("%d rows from %d: row %d output %d: %v, want %v", tile.rows, first, r, o, y, want[(first+r)*group+o])
				}
			}
		}
	}
	return ""
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
	return slices.Concat(y...)
}

func TestARowOfAMatMulIsItselfInAnyCompany(t *testing.T) {
	const n, most = 5*group + 3, 64
	alone := openTest(t, 1, &goKernels)
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
				rng := rand.New(rand.NewPCG(5, 6))
				width := 3 * max(l.step, blockLen)
				w, err := alone.Pack(f.Type, n, width, randomRows(t, rng, f, n, width), nil)
				if err != nil {
					t.Fatal(err)
				}
				x, want := make([]float32, most*width), make([]float32, 0, most*n)
				for r := range most {
					activations[r%len(activations)].fill(rng, r, x[r*width:][:width])
					want = append(want, matMul(t, alone, x[r*width:][:width], w)...)
				}
				for _, threads := range []int{1, 3} {
					d := openTest(t, threads, set)
					for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, most} {
						from := rng.IntN(most - rows + 1) // so that a row meets every place in a panel
						got := matMul(t, d, x[from*width:(from+rows)*width], w)
						for i, y := range got {
							if !sameBits(y, want[from*n+i]) {
								t.Fatalf("%d threads, %d rows: row %d output %d: %v, want %v as alone", threads, rows, from+i/n, i%n, y, want[from*n+i])
							}
						}
					}
				}
			})
		})
	}
}

// The reference against float64, on the weights that package quant reads and the activations as they are.
func TestMatMulAgreesWithFloat64(t *testing.T) {
	const n, rows = group, 9
	d := openTest(t, 1, &goKernels)
	eachLayout(t, func(t *testing.T, l *layout, f *quant.Format) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, width := range widths(l) {
			data := randomRows(t, rng, f, n, width)
			w, err := d.Pack(f.Type, n, width, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := make([]float32, rows*width)
			normal(rng, 0, x)
			got, weights := matMul(t, d, x, w), make([]float32, width)
			for o := range n {
				f.Dequantize(weights, data[o*len(data)/n:][:len(data)/n])
				for r := range rows {
					want, bound := exactDot(l, weights, x[r*width:][:width])
					if y := float64(got[r*n+o]); math.Abs(y-want) > bound {
						t.Fatalf("K %d row %d output %d: %v, want %v within %v", width, r, o, y, want, bound)
					}
				}
			}
		}
	})
}

// exactDot is the product of w and x, and how far the layout's arithmetic may be from it.
//
// Float weights: a product rounds, K/4 additions round, two more add the parts; each by 2^-24 of at most sum |w|*|x|.
//
// Quantised weights: an activation is off by half a step, 1/254 of its block's largest (and 2^-20 of that where d and its inverse
// round), so a block by sum |w| * max|x| / 254. Then float32: five roundings on the way to the sum, which rounds twice a block,
// each by 2^-24 of the sum of |d*q| + |m| times |x|. In a block whose integers span their range that is at most 3 max|w|.
func exactDot(l *layout, w, x []float32) (sum, bound float64) {
	const unit = 0x1p-24
	var products, blocks, steps float64
	for from := 0; from < len(x); from += blockLen {
		to := min(from+blockLen, len(x))
		var peak, most, total float64
		for i := from; i < to; i++ {
			a, b := float64(w[i]), float64(x[i])
			sum += a * b
			products += math.Abs(a * b)
			total += math.Abs(a)
			peak, most = max(peak, math.Abs(b)), max(most, math.Abs(a))
		}
		steps += total * peak / 254 * (1 + 0x1p-20)
		blocks += blockLen * 3 * most * peak
	}
	if l.float {
		return sum, float64(len(x)/4+3) * unit * products
	}
	return sum, steps + float64(2*len(x)/blockLen+5)*unit*blocks
}

// BenchmarkMatMul runs a weight larger than the caches: at one row the floor is the memory's bandwidth, at many the processor's
// products. MB/s counts the packed weight.
func BenchmarkMatMul(b *testing.B) {
	const n, k = 32768, 2048
	for _, set := range sets[:max(1, len(sets)-1)] {
		d := openTest(b, 0, set)
		for _, l := range layouts {
			f := formatsOf(l)[0]
			size, _ := f.RowBytes(k)
			w, err := d.Pack(f.Type, n, k, make([]byte, n*size), nil)
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
