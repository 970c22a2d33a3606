package model

import (
	"reflect"
	"slices"

	"memra/compute"
	"memra/gguf"
)

// bias is a vector that products with a weight are added to.
type bias struct {
	of     reflect.Value // the field of the compute.Weight
	tensor *gguf.Tensor
}

// bias finds a matrix's bias and checks its shape.
func (b *binder) bias(field reflect.Value, matrix string, rows []int, required bool) {
	name := matrix + ".bias"
	t, ok := b.tensors[name]
	switch {
	case !ok && required:
		b.failOnce("tensor %s: missing, want shape %v, a value for each row of %s.weight", name, rows, matrix)
	case ok && !slices.Equal(t.Shape, rows):
		b.failOnce("tensor %s: shape %v, want %v, a value for each row of %s.weight", name, t.Shape, rows, matrix)
	case ok:
		b.biases = append(b.biases, bias{field, t})
	}
	b.taken[name] = true
}

// addBiases gives weights, which are packed, their biases.
func (b *binder) addBiases(d compute.Device) {
	for _, bias := range b.biases {
		values, err := floats(bias.tensor)
		if err != nil {
			b.fail("tensor %s: %w", bias.tensor.Name, err)
			continue
		}
		bias.of.FieldByName("Bias").Set(reflect.ValueOf(d.Vector(values)))
	}
}
