package quant

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

// read returns a file of testdata; tools/oracle/quant.py wrote it.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// floats decodes little-endian float32.
func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// same compares bits; which NaN it is does not matter.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

func TestDequantizeEqualsTheOracleBitForBit(t *testing.T) {
	for _, f := range formats {
		t.Run(f.Name, func(t *testing.T) {
			src, want := read(t, f.Name+".blocks"), floats(read(t, f.Name+".values"))
			got := make([]float32, len(want))
			f.Dequantize(got, src)
			for i := range want {
				if !same(got[i], want[i]) {
					t.Fatalf("block %d, value %d: found %g (%#08x), want %g (%#08x)", i/f.Block, i%f.Block,
						got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
				}
			}
		})
	}
}

func TestQuantizeEqualsTheOracleWhereItHasOne(t *testing.T) {
	src := floats(read(t, "inputs.values"))
	for _, f := range formats {
		if _, err := os.Stat(filepath.Join("testdata", f.Name+".encoded")); err != nil {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			want := read(t, f.Name+".encoded")
			got := make([]byte, len(want))
			f.Quantize(got, src, nil)
			for i := range want {
				if got[i] != want[i] {
					block := i / f.Bytes
					t.Fatalf("block %d, byte %d: found %#02x, want %#02x; values %v", block, i%f.Bytes, got[i], want[i],
						src[block*f.Block:][:f.Block])
				}
			}
		})
	}
}

func TestBlocksHaveTheSizesThatFilesUse(t *testing.T) {
	for id, f := range formats {
		if values, bytes := id.Block(); f.Type != id || f.Block != values || f.Bytes != bytes || f.Name != id.String() {
			t.Errorf("%s: found %+v, want %d values in %d bytes", id, *f, values, bytes)
		}
	}
}

// Every id that a file can carry has a format.
func TestEveryTypeOfAFileIsAFormat(t *testing.T) {
	for id := range gguf.Type(256) {
		if values, _ := id.Block(); values == 0 {
			continue
		}
		if _, err := For(id); err != nil {
			t.Error(err)
		}
	}
}

func TestAnUnsupportedFormatIsRefusedWithTheListOfSupportedOnes(t *testing.T) {
	_, err := For(99)
	for _, want := range []string{"type 99", "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0", "Q4_K, Q5_K, Q6_K"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want it to name %s", err, want)
		}
	}
}

func TestRowsMustBeWholeBlocks(t *testing.T) {
	f, err := For(gguf.Q4_K)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.RowBytes(512); n != 288 || err != nil {
		t.Errorf("found %d, %v, want 288", n, err)
	}
	for _, n := range []int{255, 576, -256} {
		if _, err := f.RowBytes(n); err == nil || !strings.Contains(err.Error(), "256") {
			t.Errorf("%d values: found the error %v, want one that names the block", n, err)
		}
	}
}

func TestLengthsThatDisagreePanic(t *testing.T) {
	f, err := For(gguf.Q8_0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		call func()
	}{
		{"bytes of one block for two", func() { f.Dequantize(make([]float32, 64), make([]byte, 34)) }},
		{"half a block", func() { f.Dequantize(make([]float32, 16), make([]byte, 17)) }},
		{"room for one block of two", func() { f.Quantize(make([]byte, 34), make([]float32, 64), nil) }},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: found no panic", c.name)
				}
			}()
			c.call()
		}()
	}
}

// Errors of a round trip. A format of b bits spreads a block over 2^b codes, so no value is further from its own than half
// a step, and half a step more at the end that has one code fewer; f16 scales add 2^-11 of the magnitude.
func TestRoundTripStaysWithinTheFormatsStep(t *testing.T) {
	for _, c := range []struct {
		format gguf.Type
		steps  float64 // steps between the codes over the range
		signed bool    // codes around zero: the range is twice the largest magnitude
		worst  float64 // largest error, in steps
	}{
		{gguf.Q8_0, 254, true, 0.5},
		{gguf.Q4_0, 16, true, 1},
		{gguf.Q4_1, 15, false, 0.5},
		{gguf.Q5_0, 32, true, 1},
		{gguf.Q5_1, 31, false, 0.5},
	} {
		f := formats[c.format]
		t.Run(f.Name, func(t *testing.T) {
			eachBlock(t, f, func(x, y []float32) {
				low, high := span(x)
				reach := 2 * float64(largest(x))
				if !c.signed {
					reach = float64(high) - float64(low)
				}
				bound := reach/c.steps*c.worst + float64(largest(x))/1024 + math.Ldexp(1, -24)*c.steps
				for j := range x {
					if e := math.Abs(float64(x[j]) - float64(y[j])); !(e <= bound) {
						t.Fatalf("value %d: %g came back as %g: error %g, want at most %g", j, x[j], y[j], e, bound)
					}
				}
			})
		})
	}
}

// The K formats fit by least squares, so their bound is on the root mean square of a block's error, relative to that of its
// values. Blocks whose scales would be subnormal halves are left out.
func TestRoundTripOfTheKFormatsIsClose(t *testing.T) {
	for _, c := range []struct {
		format gguf.Type
		worst  float64 // for normal values: what llama.cpp's quantiser leaves, without an importance matrix
	}{
		{gguf.Q4_K, 0.0709},
		{gguf.Q5_K, 0.0360},
		{gguf.Q6_K, 0.0177},
		{gguf.Q2_K, 0.2964},
		{gguf.Q3_K, 0.1508},
		{gguf.IQ4_XS, 0.0768},
	} {
		f := formats[c.format]
		t.Run(f.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			x, y, b := make([]float32, 256*64), make([]float32, 256*64), make([]byte, f.Bytes*64)
			for i := range x {
				x[i] = float32(rng.NormFloat64() * 0.02)
			}
			f.Quantize(b, x, nil)
			f.Dequantize(y, b)
			if e := relative(x, y); !(e <= c.worst) {
				t.Errorf("normal values: found a relative error of %.4f, want at most %.4f", e, c.worst)
			} else {
				t.Logf("normal values: relative error %.4f", e)
			}
			eachBlock(t, f, func(x, y []float32) {
				if e := relative(x, y); !(e <= 2.5*c.worst) && largest(x) > 1e-3 {
					t.Errorf("found a relative error of %.4f, want at most %.4f, for %v", e, 2.5*c.worst, x)
				}
			})
		})
	}
}

func TestZerosComeBackAsZeros(t *testing.T) {
	for _, f := range formats {
		if f.Quantize == nil {
			continue
		}
		n := 2 * f.Block
		y, b := make([]float32, n), make([]byte, 2*f.Bytes)
		f.Quantize(b, make([]float32, n), nil)
		f.Dequantize(y, b)
		for j, v := range y {
			if v != 0 {
				t.Errorf("%s: zero %d came back as %g", f.Name, j, v)
			}
		}
	}
}

// Values that are unimportant but for a few: the search must keep those better than it does without being told.
func TestImportantValuesComeBackCloser(t *testing.T) {
	for _, f := range formats {
		if f.Quantize == nil || f.Block == 1 || f.Type == gguf.Q8_0 {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(f.Type)))
			x, importance, b := make([]float32, 1<<14), make([]float32, 1<<14), make([]byte, (1<<14)/f.Block*f.Bytes)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
				importance[i] = 1e-3
				if rng.IntN(4) == 0 {
					importance[i] = 1
				}
			}
			miss := func(told []float32) (sum float64) {
				y := make([]float32, len(x))
				f.Quantize(b, x, told)
				f.Dequantize(y, b)
				for i := range x {
					d := float64(x[i]) - float64(y[i])
					sum += float64(importance[i]) * d * d
				}
				return sum
			}
			alike, told := miss(nil), miss(importance)
			if told >= 0.95*alike {
				t.Errorf("found a weighted error of %.4g, want less than 0.95 of %.4g, what it is without importance", told, alike)
			}
			t.Logf("weighted error %.3f of what it is without importance", told/alike)
		})
	}
}

func TestImportanceOfAnotherLengthPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("found no panic")
		}
	}()
	formats[gguf.Q4_0].Quantize(make([]byte, 36), make([]float32, 64), make([]float32, 32))
}

// eachBlock sends the oracle's inputs, and random blocks of many sizes and offsets, through a round trip and hands out each
// block's values before and after.
func eachBlock(t *testing.T, f *Format, check func(x, y []float32)) {
	t.Helper()
	x := floats(read(t, "inputs.values"))
	rng := rand.New(rand.NewPCG(7, uint64(f.Type)))
	for range 64 {
		size, offset := math.Exp(rng.NormFloat64()*2), rng.NormFloat64()
		for range 256 {
			x = append(x, float32((rng.NormFloat64()+offset)*size))
		}
	}
	b, y := make([]byte, len(x)/f.Block*f.Bytes), make([]float32, len(x))
	f.Quantize(b, x, nil)
	f.Dequantize(y, b)
	for i := 0; i < len(x); i += f.Block {
		check(x[i:][:f.Block], y[i:][:f.Block])
	}
}

// relative returns the root of the squared error over the squared values, 0 for zeros that came back.
func relative(x, y []float32) float64 {
	var e, n float64
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		e, n = e+d*d, n+float64(x[i])*float64(x[i])
	}
	if e == 0 {
		return 0
	}
	return math.Sqrt(e / n)
}
