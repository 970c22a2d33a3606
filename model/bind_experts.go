package model

import (
	"fmt"
	"reflect"

	"memra/compute"
	"memra/gguf"
)

// packExperts packs a tensor [experts, rows, width] for each field that wants it, or half of it. It returns the bytes that a token's
// matmuls read of it: those of the experts that a row takes.
func (b *binder) packExperts(d compute.Device, t *gguf.Tensor, wants []want) (bytes int, err error) {
	if scale, ok := b.matrixScale(t); ok {
		return 0, fmt.Errorf("tensor %s scales it: scales of experts are not computed here; take a file in another format", scale.Name)
	}
	for _, want := range wants {
		rows, data := t.Shape[1], expertsOf(t)
		if want.half != whole {
			rows /= 2
			data = halves(data, want.half)
		}
		w, err := d.PackExperts(t.Type, t.Shape[0], rows, t.Shape[2], data)
		if err != nil {
			return 0, err
		}
		want.field.Set(reflect.ValueOf(w))
		bytes += w.Bytes / w.Experts * b.dims["Chosen"]
	}
	return bytes, nil
}

// expertData gives an expert's matrix, and what hears that it has been read for good.
type expertData = func(e int) (data []byte, done func(), err error)

// expertsOf cuts a tensor by experts: one at a time is made, or mapped, where that can be had.
func expertsOf(t *gguf.Tensor) expertData {
	if t.Parts != nil {
		return func(e int) ([]byte, func(), error) {
			data, err := t.Parts[e].Bytes()
			return data, func() { t.Parts[e].Release(0, len(data)) }, err
		}
	}
	data, err := t.Bytes()
	return func(e int) ([]byte, func(), error) {
		if err != nil {
			return nil, nil, err
		}
		size := len(data) / t.Shape[0]
		return data[e*size:][:size], func() { t.Release(e*size, (e+1)*size) }, nil
	}
}

// halves cuts each expert's rows: all of it is released when the second half has been read.
func halves(experts expertData, part half) expertData {
	return func(e int) ([]byte, func(), error) {
		data, done, err := experts(e)
		if err != nil {
			return nil, nil, err
		}
		if part == firstHalf {
			return data[:len(data)/2], nil, nil
		}
		return data[len(data)/2:], done, nil
	}
}
