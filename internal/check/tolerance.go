package check

import (
	"fmt"
	"math"
	"slices"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

const f32 = gguf.F32

// tolerances are how far a class may be from float64: the norm of a result's error over the norm of the truth. A wrong index, scale
// or row is an error of about 1.
type tolerances struct {
	embed     float64
	quantised float64 // MatMul with a quantised weight
	float     float64 // MatMul with a float weight
	logits    float64
	sum       float64 // of AddNorm
	scale     float64
	addNorm   float64
	norm      float64
	gate      float64
	turn      float64 // QKNormRope
	attention float64
	delta     float64 // GatedDelta
	kl        float64 // nats, in the mean over a real file's goldens
}

// classes are the tolerances by numeric class (docs/numeric-classes.md).
var classes = map[string]tolerances{
	// Activations of quantised weights are int8 by blocks of 32: the largest of 32 normal values is 2.4 in the mean, so a step is
	// 2.4/127 and its error, a twelfth's root of that, 0.0055 of the product; logits have 16 bits of the activation. Everything
	// else is float32.
	"cpu": {embed: 1e-7, quantised: 8e-3, float: 2e-6, logits: 1e-4, sum: 1e-7, scale: 1e-6, addNorm: 1e-6, norm: 1e-6, gate: 1e-6, turn: 1e-6,
		attention: 1e-5, delta: 1e-5, kl: 4e-3},
	// What matmuls multiply is f16: 2^-12·√3 of a value at random, or 2.1e-4, for the weight, its scale and the activation. Where
	// a format has minima, they are some three times as large as the values that come of adding them, and so are their errors.
	// Norms for matmuls, gates and attention store f16, where one large value alone may be wrong by 2^-11; so does attention read
	// queries and probabilities. Keys, what rows put into a state, and the state as it is read are f16 in the gated delta rule: its error
	// stays at 6e-4 to 9e-4 over a thousand rows.
	"cuda": {embed: 1.2e-3, quantised: 1.2e-3, float: 8e-4, logits: 8e-4, sum: 1e-7, scale: 1e-6, addNorm: 5e-4, norm: 1e-6, gate: 5e-4, turn: 1e-6,
		attention: 8e-4, delta: 1.5e-3, kl: 3e-4},
}

// relative is the norm of the difference over the norm of the truth, infinite where anything is not finite or the sizes differ.
func relative(got []float32, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var difference, norm float64
	for i, w := range want {
		d := float64(got[i]) - w
		difference += d * d
		norm += w * w
	}
	if e := math.Sqrt(difference / norm); !math.IsNaN(e) {
		return e
	}
	return math.Inf(1)
}

// worst collects errors of several shapes against one limit.
type worst struct {
	limit, most float64
	where       string
	shapes      int
}

func (w *worst) add(where string, got []float32, want []float64) {
	w.shapes++
	if e := relative(got, want); e >= w.most {
		w.most, w.where = e, where
	}
}

func (w *worst) verdict() (string, error) {
	text := fmt.Sprintf("relative error %.1e, limit %.0e; %d shapes", w.most, w.limit, w.shapes)
	if !(w.most <= w.limit) {
		return "", fmt.Errorf("%s: %s", w.where, text)
	}
	return text, nil
}

// differ names the first value whose bits differ, "" if none does.
func differ(got, want []float32) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d values, want %d", len(got), len(want))
	}
	n, first := 0, 0
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d values differ, value %d is %v, want %v", n, len(want), first, got[first], want[first])
}

// encode stores values in a format, all at once.
func encode(t gguf.Type, values []float32) []byte {
	f, err := quant.For(t)
	if err != nil {
		panic(err) // callers have looked it up
	}
	data := make([]byte, len(values)/f.Block*f.Bytes)
	f.Quantize(data, values, nil)
	return data
}

// decode is what package quant reads.
func decode(t gguf.Type, data []byte, n int) []float32 {
	f, err := quant.For(t)
	if err != nil {
		panic(err)
	}
	values := make([]float32, n)
	f.Dequantize(values, data)
	return values
}

// half is values rounded to f16 and back.
func half(x float32) float64 { return float64(quant.F16ToF32(quant.F32ToF16(x))) }

// weight is a random matrix in a format, on the device and as package quant reads it.
func (c *checker) weight(t gguf.Type, rows, width int) (compute.Weight, matrix, error) {
	values := c.normal(rows, width, 0.05)
	data := encode(t, values.values)
	w, err := c.device.Pack(t, rows, width, data, nil)
	return w, matrix{width, decode(t, data, rows*width)}, err
}

// needed are the formats that every device takes; formats is those and whatever else it takes of what package quant encodes.
var needed = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K}

func isFloat(t gguf.Type) bool { return t == gguf.F32 || t == gguf.F16 || t == gguf.BF16 }

func (c *checker) formats() []gguf.Type {
	if c.known != nil {
		return c.known
	}
	list := slices.Clone(needed)
	for t := range gguf.Type(64) {
		f, err := quant.For(t)
		if err != nil || f.Quantize == nil || slices.Contains(list, t) {
			continue
		}
		if _, err := c.device.Pack(t, 1, 256, encode(t, make([]float32, 256)), nil); err == nil {
			list = append(list, t)
		}
	}
	c.known = list
	return list
}
