package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// A binder fills a family's struct from a source, by the tags of its fields:
//
//	`meta:"key" default:"expr"`      int, float32: metadata family.key; without a default it must be there. []bool: see pattern
//	`rope:"neighbours"`, `"halves"`  *compute.Rope: see rope in config.go
//	`tensor:"name,other" shape:"A,B"` compute.Weight, compute.Vector: the first of the names that the file has
//	`bias:"required"`, `"optional"`   beside the tensor of a compute.Weight: NAME.bias, a value for each of its rows
//	`optional:"why"`                  beside it: the file may have none of them, which leaves the field zero
//	`tensor:"blk" count:"Layers"`     a slice of structs: blk.0., blk.1., ...; from:"Layers" begins at another number
//	embedded struct                   its fields, as if they stood there; one:"a or b": of its blocks the file must have one
//	`block:"what"`                    pointer to a struct: its fields likewise; nil where the file has none of its tensors
//	`unused:"blk" count:"N"`          struct{}: tensors that the family knows and does not need, of blk.0. and so on
//
// bind_layers.go has those of layers that are not alike.
//
// A weight of three dimensions is a matrix for each expert. Of a name that ends in /0 or /1 it is the first or second half of each
// matrix's rows (with groups:"N" beside it, of each of N groups of rows), of /left or /right half of each row. A vector with
// transposed:"" is a matrix, column after column. Shapes and defaults are sums, differences, products and quotients, from left to right,
// of numbers and fields read before. Tensor names get GGUF's ".weight", unless they end in ".bias" or ".scale", or in a dot, which is
// not theirs. A tensor that no field takes is an error as well: a model that has more than the family knows of
// would run, and be wrong. Beside NAME.weight a file may have NAME.scale, a number that multiplies the whole matrix (NVFP4), and
// NAME.input_scale, which is for devices that quantise activations the same way.
type binder struct {
	src     Source
	family  string
	dims    map[string]int          // integers of the configuration, by field name
	tensors map[string]*gguf.Tensor // by name
	taken   map[string]bool
	wants   map[string][]want  // fields to fill, by tensor
	lists   map[string][]int   // numbers of the configuration by layer, by field name
	factors map[string]float32 // by field name, for times
	layer   int                // whose fields are being bound
	ones    []ones             // fields to fill without a tensor
	biases  []bias
	errs    []error
}

// want is a field that a tensor fills: by all of it, or by half.
type want struct {
	field      reflect.Value
	half       half
	groups     int // of rows, each of which is halved
	times      string
	transposed bool
}

func newBinder(src Source, family string) *binder {
	b := &binder{src: src, family: family, dims: map[string]int{}, tensors: map[string]*gguf.Tensor{}, taken: map[string]bool{}, wants: map[string][]want{},
		lists: map[string][]int{}, factors: map[string]float32{}}
	tensors := src.Tensors()
	for i := range tensors {
		b.tensors[tensors[i].Name] = &tensors[i]
	}
	return b
}

func (b *binder) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

// bind reads the configuration and checks all tensors. Its error has a line for each thing that is wrong.
func (b *binder) bind(family any) error {
	v := reflect.ValueOf(family).Elem()
	b.config(v)
	if len(b.errs) == 0 {
		b.derive(family)
	}
	if len(b.errs) == 0 { // shapes depend on it
		b.structure(v, "")
		b.unexpected()
	}
	if len(b.errs) > 0 {
		return fmt.Errorf("model: %s: not a %s model that memra can run:\n%w", b.src.Name(), b.family, errors.Join(b.errs...))
	}
	return nil
}

// structure walks the tensor fields of a struct.
func (b *binder) structure(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		field, f := v.Field(i), v.Type().Field(i)
		if f.Anonymous {
			b.structure(field, prefix)
			if what, ok := f.Tag.Lookup("one"); ok && !slices.ContainsFunc(fieldsOf(field), func(v reflect.Value) bool { return !v.IsNil() }) {
				b.fail("tensors of %s: missing, want %s", strings.TrimSuffix(prefix, "."), what)
			}
			continue
		}
		if b.absent(f) {
			continue
		}
		if width, ok := f.Tag.Lookup("ones"); ok {
			b.ones = append(b.ones, ones{field, b.eval(width)})
			continue
		}
		if _, ok := f.Tag.Lookup("block"); ok {
			if _, must := f.Tag.Lookup("when"); must || b.has(field.Type().Elem(), prefix) {
				field.Set(reflect.New(field.Type().Elem()))
				b.structure(field.Elem(), prefix)
			}
			continue
		}
		first := b.eval(f.Tag.Get("from"))
		if f.Tag.Get("from") == "" {
			first = 0
		}
		if name, ok := f.Tag.Lookup("unused"); ok {
			for j := range b.count(f) {
				b.takeAll(fmt.Sprintf("%s%s.%d.", prefix, name, first+j))
			}
			continue
		}
		names, ok := f.Tag.Lookup("tensor")
		if !ok {
			continue
		}
		if field.Kind() == reflect.Slice {
			n := b.count(f)
			field.Set(reflect.MakeSlice(field.Type(), n, n))
			for j := range n {
				b.layer = first + j
				b.structure(field.Index(j), fmt.Sprintf("%s%s.%d.", prefix, names, first+j))
			}
			continue
		}
		_, optional := f.Tag.Lookup("optional")
		if number, ok := f.Tag.Lookup("default"); ok {
			x, err := strconv.ParseFloat(number, 32)
			if err != nil {
				panic("model: a tensor's default is no number: " + f.Name)
			}
			optional = true
			field.SetFloat(x)
		}
		b.tensor(field, prefix, strings.Split(names, ","), b.shape(f), f.Tag, optional)
	}
}

// count is how many structs a slice has: no more than the file has tensors, for each takes some.
func (b *binder) count(f reflect.StructField) int {
	expr := f.Tag.Get("count")
	n := b.eval(expr)
	if n < 0 || n > len(b.tensors) {
		b.fail("metadata: %d of %s (%s), want 0 to %d, as many as the file has tensors", n, strings.ToLower(f.Name), expr, len(b.tensors))
		return 0
	}
	return n
}

func fieldsOf(v reflect.Value) (fields []reflect.Value) {
	for i := range v.NumField() {
		fields = append(fields, v.Field(i))
	}
	return fields
}

// has reports whether the file has a tensor of a struct's own fields.
func (b *binder) has(t reflect.Type, prefix string) bool {
	for i := range t.NumField() {
		for _, name := range strings.Split(t.Field(i).Tag.Get("tensor"), ",") {
			name, _ = halfOf(name)
			if _, ok := b.tensors[tensorName(prefix, name)]; ok {
				return true
			}
		}
	}
	return false
}

// shape is what a field's tag says.
func (b *binder) shape(f reflect.StructField) (shape []int) {
	for _, dim := range strings.Split(f.Tag.Get("shape"), ",") {
		shape = append(shape, b.eval(dim))
	}
	return shape
}

// takeAll marks tensors as known.
func (b *binder) takeAll(prefix string) {
	for name := range b.tensors {
		if strings.HasPrefix(name, prefix) {
			b.taken[name] = true
		}
	}
}

// tensor finds the tensor of a field and checks its shape.
func (b *binder) tensor(field reflect.Value, prefix string, names []string, shape []int, tag reflect.StructTag, optional bool) {
	need, biased := tag.Lookup("bias")
	for _, name := range names {
		name, part := halfOf(name)
		t, ok := b.tensors[tensorName(prefix, name)]
		if !ok {
			continue
		}
		b.taken[t.Name] = true
		shape, meaning := part.whole(shape, tag.Get("shape"))
		if biased {
			b.bias(field, stem(t), shape[:len(shape)-1], need == "required")
		}
		if !slices.Equal(t.Shape, shape) && !slices.Equal(append([]int{1}, t.Shape...), shape) { // a matrix of one row may be a vector
			b.failOnce("tensor %s: shape %v, want %v (%s)", t.Name, t.Shape, shape, meaning)
			return
		}
		_, transposed := tag.Lookup("transposed")
		groups := 1
		if expr, ok := tag.Lookup("groups"); ok {
			groups = b.eval(expr)
		}
		b.wants[t.Name] = append(b.wants[t.Name], want{field, part, groups, tag.Get("times"), transposed})
		b.taken[stem(t)+".scale"], b.taken[stem(t)+".input_scale"] = true, true
		return
	}
	if optional {
		return
	}
	var all []string
	for _, name := range names {
		name, _ := halfOf(name)
		all = append(all, name)
	}
	_, part := halfOf(names[0])
	shape, meaning := part.whole(shape, tag.Get("shape"))
	b.failOnce("tensor %s: missing, want shape %v (%s)", tensorName(prefix, strings.Join(all, " or ")), shape, meaning)
	if biased {
		b.bias(field, prefix+all[0], shape[:len(shape)-1], need == "required")
	}
}

// whole is the shape of what a half is a half of, and what it means.
func (h half) whole(shape []int, meaning string) ([]int, string) {
	if h == whole {
		return shape, meaning
	}
	shape = slices.Clone(shape)
	shape[h.dim(shape)] *= 2
	return shape, meaning + ", twice: it is two in one"
}

// failOnce does not repeat itself: two fields may want one tensor.
func (b *binder) failOnce(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, told := range b.errs {
		if told.Error() == err.Error() {
			return
		}
	}
	b.errs = append(b.errs, err)
}

func tensorName(prefix, name string) string {
	if stem, ok := strings.CutSuffix(name, "."); ok {
		return prefix + stem
	}
	if strings.HasSuffix(name, ".bias") || strings.HasSuffix(name, ".scale") {
		return prefix + name
	}
	return prefix + name + ".weight"
}

// unexpected complains of tensors that the family does not know.
func (b *binder) unexpected() {
	var names []string
	for _, t := range b.src.Tensors() {
		if !b.taken[t.Name] {
			names = append(names, t.Name)
		}
	}
	if n := len(names); n > 0 {
		b.fail("%d of %d tensors are not known to the family, such as %s", n, len(b.src.Tensors()), strings.Join(names[:min(n, 4)], ", "))
	}
}

// pack brings the tensors to the device, side by side, and fills the fields. It returns the bytes that the matmuls of a token
// read: every weight once, but for an embedding that is only looked up.
func (b *binder) pack(d compute.Device) (bytes int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	jobs := make(chan string)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for name := range jobs {
				read, err := b.packTensor(d, b.tensors[name], b.wants[name])
				mu.Lock()
				bytes += read
				if err != nil {
					b.fail("tensor %s: %w", name, err)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range b.src.Tensors() {
		if len(b.wants[t.Name]) > 0 {
			jobs <- t.Name
		}
	}
	close(jobs)
	wg.Wait()
	b.addBiases(d)
	b.makeOnes(d)
	if len(b.errs) > 0 {
		return 0, fmt.Errorf("model: %s: %w", b.src.Name(), errors.Join(b.errs...))
	}
	return bytes, nil
}

func (b *binder) packTensor(d compute.Device, t *gguf.Tensor, wants []want) (bytes int, err error) {
	switch wants[0].field.Interface().(type) {
	case compute.Weight:
		if len(t.Shape) == 3 {
			return b.packExperts(d, t, wants)
		}
		data, err := t.Bytes()
		if err != nil {
			return 0, err
		}
		format, release := t.Type, t.Release
		if scale, ok := b.matrixScale(t); ok {
			if data, err = scaled(t, data, scale); err != nil {
				return 0, err
			}
			format, release = gguf.F32, nil
		}
		rows, width := 1, t.Shape[len(t.Shape)-1]
		if len(t.Shape) == 2 {
			rows = t.Shape[0]
		}
		if wants[0].half != whole {
			return packParts(d, format, rows, width, data, wants)
		}
		w, err := d.Pack(format, rows, width, data, release)
		if err != nil {
			return 0, err
		}
		for _, want := range wants {
			want.field.Set(reflect.ValueOf(w))
		}
		if strings.HasSuffix(t.Name, "token_embd.weight") && len(wants) == 1 { // looked up
			return 0, nil
		}
		return w.Bytes, nil
	case compute.Vector:
		for _, want := range wants {
			if want.transposed {
				v, err := transposed(d, t)
				if err != nil {
					return 0, err
				}
				want.field.Set(reflect.ValueOf(v))
				continue
			}
			v, err := b.gain(d, t, want.times)
			if err != nil {
				return 0, err
			}
			want.field.Set(reflect.ValueOf(v))
		}
		return 4 * t.Values(), nil
	case float32:
		return 0, b.number(wants[0].field, t)
	}
	return 0, fmt.Errorf("field of type %T, want compute.Weight, compute.Vector or float32", wants[0].field.Interface())
}

// matrixScale is the number that multiplies a whole matrix: NAME.scale, where that is no tensor of the family's.
func (b *binder) matrixScale(t *gguf.Tensor) (*gguf.Tensor, bool) {
	scale, ok := b.tensors[stem(t)+".scale"]
	return scale, ok && len(b.wants[stem(t)+".scale"]) == 0
}

// stem is a tensor's name without ".weight".
func stem(t *gguf.Tensor) string { return strings.TrimSuffix(t.Name, ".weight") }

// scaled multiplies a matrix by its scale, into F32: no block format holds the products.
func scaled(t *gguf.Tensor, data []byte, scale *gguf.Tensor) ([]byte, error) {
	factor, err := floats(scale)
	if err != nil {
		return nil, err
	}
	if len(factor) != 1 {
		return nil, fmt.Errorf("tensor %s: %d values, want one for the whole matrix", scale.Name, len(factor))
	}
	f, err := quant.For(t.Type)
	if err != nil {
		return nil, err
	}
	rows, width := t.Shape[0], t.Shape[1]
	size, err := f.RowBytes(width)
	if err != nil {
		return nil, err
	}
	values, out := make([]float32, width), make([]byte, 0, 4*rows*width)
	for r := range rows {
		f.Dequantize(values, data[r*size:][:size])
		for _, x := range values {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x*factor[0]))
		}
	}
	return out, nil
}

// floats dequantises a small tensor.
func floats(t *gguf.Tensor) ([]float32, error) {
	f, err := quant.For(t.Type)
	if err != nil {
		return nil, err
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	values := make([]float32, t.Values())
	f.Dequantize(values, data)
	return values, nil
}
