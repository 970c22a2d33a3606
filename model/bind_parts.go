package model

import (
	"fmt"
	"reflect"
	"strings"

	"memra/compute"
	"memra/gguf"
)

// half is a part of a matrix.
type half int

const (
	whole      half = iota
	firstHalf       // of its rows, or of each group's
	secondHalf      //
	leftHalf        // of each row
	rightHalf       //
)

// halfOf cuts what names a half off a tensor's name.
func halfOf(name string) (string, half) {
	for end, part := range map[string]half{"/0": firstHalf, "/1": secondHalf, "/left": leftHalf, "/right": rightHalf} {
		if stem, ok := strings.CutSuffix(name, end); ok {
			return stem, part
		}
	}
	return name, whole
}

// dim is which dimension of a tensor is twice the part's.
func (h half) dim(shape []int) int {
	if h == leftHalf || h == rightHalf {
		return len(shape) - 1
	}
	return len(shape) - 2
}

// packParts packs a part of a matrix for each field that wants one.
func packParts(d compute.Device, format gguf.Type, rows, width int, data []byte, wants []want) (bytes int, err error) {
	for _, want := range wants {
		rows, width, part := rows, width, data
		switch want.half {
		case firstHalf, secondHalf:
			part = chunks(data, 2*want.groups, int(want.half-firstHalf))
			rows /= 2
		case leftHalf, rightHalf:
			if values, _ := format.Block(); width%(2*values) != 0 {
				return 0, fmt.Errorf("rows of %d values in %v, which cannot be parted in two within a block of %d; convert to F16, BF16 or Q8_0", width, format, values)
			}
			part = chunks(data, 2*rows, int(want.half-leftHalf))
			width /= 2
		}
		w, err := d.Pack(format, rows, width, part, nil)
		if err != nil {
			return 0, err
		}
		want.field.Set(reflect.ValueOf(w))
		bytes += w.Bytes
	}
	return bytes, nil
}

// chunks cuts data into n chunks of equal size and joins those of even numbers, or of odd ones.
func chunks(data []byte, n, odd int) []byte {
	size := len(data) / n
	out := make([]byte, 0, len(data)/2)
	for i := odd; i < n; i += 2 {
		out = append(out, data[i*size:][:size]...)
	}
	return out
}

// transposed is a matrix as a vector, column after column.
func transposed(d compute.Device, t *gguf.Tensor) (compute.Vector, error) {
	values, err := floats(t)
	if err != nil {
		return compute.Vector{}, err
	}
	width := t.Shape[len(t.Shape)-1]
	rows, out := len(values)/width, make([]float32, len(values))
	for i, v := range values {
		out[i%width*rows+i/width] = v
	}
	return d.Vector(out), nil
}
