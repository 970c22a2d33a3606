package cpu

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/gguf"
	"memra/quant"
)

// randomRows makes file data of a format: rows of normal values, quantised; where nothing quantises, random codes under scales
// about 1.
func randomRows(t testing.TB, rng *rand.Rand, f *quant.Format, rows, width int) []byte {
	t.Helper()
	size, err := f.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	data, values := make([]byte, rows*size), make([]float32, width)
	if f.Quantize == nil {
		randomCodes(rng, f, data)
		return data
	}
	for r := range rows {
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		f.Quantize(data[r*size:][:size], values, nil)
	}
	return data
}

// randomCodes fills blocks of a format that nothing quantises.
func randomCodes(rng *rand.Rand, f *quant.Format, data []byte) {
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	scale := func() uint16 { return quant.F32ToF16(float32(rng.NormFloat64())) }
	for ; len(data) > 0; data = data[f.Bytes:] {
		switch f.Type {
		case gguf.NVFP4, gguf.I8, gguf.I16, gguf.I32, gguf.I64:
		case gguf.F64:
			binary.LittleEndian.PutUint64(data, math.Float64bits(rng.NormFloat64()))
		case gguf.Q8_K:
			binary.LittleEndian.PutUint32(data, math.Float32bits(float32(rng.NormFloat64())))
		case gguf.IQ1_M:
			for i, s := 0, scale(); i < 4; i++ {
				data[49+2*i] = data[49+2*i]&15 | byte(s>>(4*i))<<4
			}
		default:
			at := map[gguf.Type]int{gguf.TQ1_0: 52, gguf.TQ2_0: 64}[f.Type]
			binary.LittleEndian.PutUint16(data[at:], scale())
		}
	}
}

// formatsOf is the formats that pack into a layout as they are.
func formatsOf(l *layout) (formats []*quant.Format) {
	for _, t := range slices.Sorted(maps.Keys(sources)) {
		if s := sources[t][0]; s.layout == l && s.as == t {
			formats = append(formats, known(t))
		}
	}
	return formats
}

// eachFormat runs a test for every format and every way to pack it.
func eachFormat(t *testing.T, test func(t *testing.T, s source, f *quant.Format)) {
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		for _, s := range sources[id] {
			t.Run(id.String()+" as "+s.layout.name, func(t *testing.T) { test(t, s, known(id)) })
		}
	}
}

// eachLayout runs a test for every layout with the formats that it holds as they are.
func eachLayout(t *testing.T, test func(t *testing.T, l *layout, f *quant.Format)) {
	for _, l := range layouts {
		for _, f := range formatsOf(l) {
			t.Run(f.Name, func(t *testing.T) { test(t, l, f) })
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

func TestEveryFormatPacksWithoutLoss(t *testing.T) {
	for id := range gguf.Type(256) {
		if values, _ := id.Block(); values > 0 && len(sources[id]) == 0 {
			t.Errorf("%v: found no way to pack it", id)
		}
	}
	d := openTest(t, 1, &goKernels)
	eachFormat(t, func(t *testing.T, s source, f *quant.Format) {
		const rows, width = 37, 512 // the last group is not full
		rng := rand.New(rand.NewPCG(1, 2))
		for _, data := range [][]byte{randomRows(t, rng, f, rows, width), randomBytes(rng, f, rows, width)} {
			if s.fits != nil && !s.fits(data) {
				continue
			}
			w, err := d.Pack(f.Type, rows, width, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, want := make([]float32, width), make([]float32, width)
			for r := range rows {
				w.Mem.(*packed).row(got, r)
				f.Dequantize(want, data[r*len(data)/rows:][:len(data)/rows])
				for i := range want {
					if !sameBits(got[i], want[i]) {
						t.Fatalf("row %d value %d: %v, want %v", r, i, got[i], want[i])
					}
				}
			}
		}
	})
}

func TestMXFP4TakesTheWayThatItsScalesAllow(t *testing.T) {
	block := make([]byte, 17)
	for e, want := range map[byte]*layout{103: layoutBF16, 104: layoutQ8, 143: layoutQ8, 144: layoutBF16, 255: layoutBF16} {
		block[0] = e
		if got := sourceOf(gguf.MXFP4, block).layout; got != want {
			t.Errorf("scale 2^%d: found %s, want %s", int(e)-127, got.name, want.name)
		}
	}
}
