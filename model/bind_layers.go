package model

import (
	"errors"
	"fmt"
	"reflect"

	"memra/compute"
	"memra/gguf"
)

// Layers that are not alike. A number of the configuration may be a list, a value a layer: []int with a meta tag, from an array or
// from one number for all, or whatever derive fills in; a []bool counts as ones and zeros. In shapes and conditions of layer i's
// fields its name means the i-th.
//
//	`when:"expr"`      beside tensor or block: the layer has it where the number is not zero, and then must; else it must not
//	`ones:"expr"`      compute.Vector: that many ones: the gain of a norm that has none
//	`times:"Field"`    beside tensor, of a compute.Vector: its values times a float32 of the family
//	`default:"number"` beside tensor, of a float32: a tensor of one value that the file may lack

// deriver is a family of which some numbers follow from others.
type deriver interface {
	// derive fills them in, after the configuration has been read and before shapes are. Its error says what contradicts what.
	derive() error
}

// leaver is a family whose files have tensors that nothing computes with.
type leaver interface {
	// unused lists them; a file need not have them. They are asked for once derive has run.
	unused() []string
}

// ints reads a number a layer.
func (b *binder) ints(key, fallback string, optional bool) []int {
	m, n := b.src.Metadata(), b.dims["Layers"]
	list, err := m.Ints(key)
	if err != nil {
		var one int
		if one, err = m.Int(key); errors.Is(err, gguf.ErrNoKey) && optional {
			one, err = b.eval(fallback), nil
		}
		if err != nil {
			b.fail("%w", err)
			return nil
		}
		list = make([]int, n)
		for i := range list {
			list[i] = one
		}
	}
	if len(list) < n {
		b.fail("metadata %s: %d values, want one for each of %d layers", key, len(list), n)
		return nil
	}
	for i, v := range list[:n] {
		if v <= 0 || v > maxDim {
			b.fail("metadata %s: %d in layer %d, want 1 to %d", key, v, i, maxDim)
			return nil
		}
	}
	return list[:n]
}

// derive lets a family fill in what follows, and makes its numbers known to shapes.
func (b *binder) derive(family any) {
	if d, ok := family.(deriver); ok {
		if err := d.derive(); err != nil {
			b.fail("%w", err)
			return
		}
	}
	b.numbers(reflect.ValueOf(family).Elem())
	if l, ok := family.(leaver); ok {
		for _, name := range l.unused() {
			b.taken[name] = true
		}
	}
}

func (b *binder) numbers(v reflect.Value) {
	for i := range v.NumField() {
		field, f := v.Field(i), v.Type().Field(i)
		if f.Anonymous {
			b.numbers(field)
			continue
		}
		switch field.Kind() {
		case reflect.Int:
			b.dims[f.Name] = int(field.Int())
		case reflect.Float32:
			b.factors[f.Name] = float32(field.Float())
		case reflect.Slice:
			switch list := field.Interface().(type) {
			case []int:
				b.lists[f.Name] = list
			case []bool:
				b.lists[f.Name] = numbersOf(list)
			}
		}
	}
}

// numbersOf is 1 for true and 0 for false.
func numbersOf(list []bool) []int {
	numbers := make([]int, len(list))
	for i, yes := range list {
		if yes {
			numbers[i] = 1
		}
	}
	return numbers
}

// absent reports whether the layer does not have a field.
func (b *binder) absent(f reflect.StructField) bool {
	when, ok := f.Tag.Lookup("when")
	return ok && b.eval(when) == 0
}

// number reads a tensor of one value into a float32.
func (b *binder) number(field reflect.Value, t *gguf.Tensor) error {
	values, err := floats(t)
	if err != nil {
		return err
	}
	field.SetFloat(float64(values[0]))
	return nil
}

// gain is a vector, times what its field says.
func (b *binder) gain(d compute.Device, t *gguf.Tensor, times string) (compute.Vector, error) {
	values, err := floats(t)
	if err != nil {
		return compute.Vector{}, err
	}
	if times != "" {
		factor, ok := b.factors[times]
		if !ok {
			return compute.Vector{}, fmt.Errorf("field %s is no float32 of the family", times)
		}
		for i := range values {
			values[i] *= factor
		}
	}
	return d.Vector(values), nil
}

// ones makes the vectors that no file has.
func (b *binder) makeOnes(d compute.Device) {
	for _, o := range b.ones {
		values := make([]float32, o.width)
		for i := range values {
			values[i] = 1
		}
		o.field.Set(reflect.ValueOf(d.Vector(values)))
	}
}

// ones is a field to fill with a vector of so many of them.
type ones struct {
	field reflect.Value
	width int
}
