package hf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"memra/gguf"
	"memra/quant"
	"memra/safetensors"
)

// scaled is a matrix of FP8 or INT8 codes with scales: one for all, one a row, or one for each block of rows and columns.
//
//	w[o,i] = code[o,i] * scale[o/R, i/C]    in float32, rounded once
//
// The names of the scales, weight_scale and weight_scale_inv, both mean a multiplier.
func (c *checkpoint) scaled(t, scale *safetensors.Tensor) (weight, error) {
	rows, width, err := rowsOf(t)
	if err != nil {
		return weight{}, err
	}
	scales, err := floats(scale)
	if err != nil {
		return weight{}, err
	}
	high, wide := rows, width // of a block
	switch grid := []int{(rows + c.block[0] - 1) / c.block[0], (width + c.block[1] - 1) / c.block[1]}; {
	case len(scales) == 1:
	case slices.Equal(scale.Shape, []int{rows}) || slices.Equal(scale.Shape, []int{rows, 1}):
		high = 1
	case slices.Equal(scale.Shape, grid):
		high, wide = c.block[0], c.block[1]
	default:
		return weight{}, fmt.Errorf("its scales have shape %v, want one, [%d 1] for one a row, or %v for blocks of %v", scale.Shape, rows, grid, c.block)
	}
	high, wide = max(high, 1), max(wide, 1)
	across := (width + wide - 1) / wide
	codes := codesOf(t.DType)
	typ := exactType(scales)
	_, size := typ.Block()
	return weight{gguf.Tensor{Name: t.Name, Type: typ, Shape: t.Shape, Make: func() ([]byte, error) {
		out := make([]byte, 0, rows*width*size)
		for o := range rows {
			in := t.Data[o*width:][:width]
			for from := 0; from < width; from += wide {
				s := scales[o/high*across+from/wide]
				for _, code := range in[from:min(from+wide, width)] {
					bits := math.Float32bits(codes[code] * s)
					if typ == gguf.BF16 {
						out = binary.LittleEndian.AppendUint16(out, uint16(bits>>16)) // the rest is zero
					} else {
						out = binary.LittleEndian.AppendUint32(out, bits)
					}
				}
			}
		}
		t.Drop(0, len(t.Data))
		return out, nil
	}}, 1, 1}, nil
}

// exactType is the smaller type that holds every product of a code with one of the scales: BF16 if all are powers of two that
// keep codes far from its ends, F32 otherwise.
func exactType(scales []float32) gguf.Type {
	for _, s := range scales {
		fraction, exponent := math.Frexp(float64(s))
		if fraction != 0.5 || exponent < -90 || exponent > 90 {
			return gguf.F32
		}
	}
	return gguf.BF16
}

// floats reads a small tensor of floats.
func floats(t *safetensors.Tensor) ([]float32, error) {
	typ, ok := floatTypes[t.DType]
	if t.DType == safetensors.F8E8M0 { // powers of two: 2^(e-127), and NaN
		out := make([]float32, len(t.Data))
		for i, e := range t.Data {
			if out[i] = float32(math.Ldexp(1, int(e)-127)); e == 255 {
				out[i] = float32(math.NaN())
			}
		}
		return out, nil
	}
	if !ok {
		return nil, fmt.Errorf("tensor %s: found %s, want F32, F16, BF16 or F8_E8M0", clip(t.Name), t.DType)
	}
	f, err := quant.For(typ)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(t.Data)/f.Bytes)
	f.Dequantize(out, t.Data)
	return out, nil
}

// scalar reads the only value of a tensor.
func scalar(t *safetensors.Tensor) (float32, error) {
	v, err := floats(t)
	if err == nil && len(v) != 1 {
		err = fmt.Errorf("tensor %s: found %d values, want one for the whole matrix", clip(t.Name), len(v))
	}
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// codesOf tabulates what each byte means.
func codesOf(t safetensors.DType) *[256]float32 {
	switch t {
	case safetensors.F8E4M3:
		return &e4m3
	case safetensors.F8E5M2:
		return &e5m2
	}
	return &int8s
}

var e4m3, e5m2, int8s = func() (a, b, c [256]float32) {
	for i := range 256 {
		// sign, 4 bits of exponent, 3 of fraction; no infinities, NaN where all bits but the sign are set
		exponent, fraction := i>>3&15, float64(i&7)/8
		x := math.Ldexp(1+fraction, exponent-7)
		switch {
		case exponent == 0:
			x = math.Ldexp(fraction, -6)
		case i&0x7f == 0x7f:
			x = math.NaN()
		}
		a[i] = float32(math.Copysign(x, 1-float64(i>>7)*2))
		// sign, 5 bits of exponent, 2 of fraction: the upper half of a half
		b[i] = quant.F16ToF32(uint16(i) << 8)
		c[i] = float32(int8(i))
	}
	return a, b, c
}()

// gain is the tensor of 1 + w, in F32.
func gain(w weight) (weight, error) {
	v, err := vector(w)
	if err != nil {
		return weight{}, err
	}
	for i := range v {
		v[i]++
	}
	return ofFloats(w, v), nil
}

// vector reads a small weight.
func vector(w weight) ([]float32, error) {
	f, err := quant.For(w.Type)
	if err != nil {
		return nil, err
	}
	data, err := w.Bytes()
	if err != nil {
		return nil, err
	}
	v := make([]float32, w.Values())
	f.Dequantize(v, data)
	return v, nil
}

// ofFloats is w with other values, in F32.
func ofFloats(w weight, v []float32) weight {
	data := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
	}
	return weight{gguf.Tensor{Name: w.Name, Type: gguf.F32, Shape: w.Shape, Data: data}, 1, 1}
}
