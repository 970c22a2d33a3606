package gguf

import (
	"errors"
	"fmt"
	"iter"
	"math"
)

// ErrNoKey is wrapped by the error of a typed getter when the key is absent; errors.Is tells absent from ill-typed.
var ErrNoKey = errors.New("no such key")

// Metadata is a file's key/value list, in the file's order. The zero value is empty and ready for Set.
//
// Values have the Go type that names their GGUF type: uint8 to uint64, int8 to int64, float32, float64, bool, string;
// arrays are []uint8 to []string, an array of arrays is []any of such slices.
type Metadata struct {
	file  string // for messages; empty if the metadata was not read from a file
	keys  []string
	value map[string]any
}

// Set adds a value at the end, or replaces a key's value where it stands. Write refuses a value of any other type than
// Metadata lists.
func (m *Metadata) Set(key string, value any) {
	if m.value == nil {
		m.value = make(map[string]any)
	}
	if _, ok := m.value[key]; !ok {
		m.keys = append(m.keys, key)
	}
	m.value[key] = value
}

// Get returns a key's value as it stands in the file.
func (m *Metadata) Get(key string) (any, bool) {
	v, ok := m.value[key]
	return v, ok
}

// Len returns the number of keys.
func (m *Metadata) Len() int { return len(m.keys) }

// All yields every key with its value, in order.
func (m *Metadata) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, k := range m.keys {
			if !yield(k, m.value[k]) {
				return
			}
		}
	}
}

// String returns the string under key.
func (m *Metadata) String(key string) (string, error) {
	return scalar[string](m, key, "a string")
}

// Bool returns the bool under key.
func (m *Metadata) Bool(key string) (bool, error) {
	return scalar[bool](m, key, "a bool")
}

// Int returns the integer under key, whatever its width and sign in the file.
func (m *Metadata) Int(key string) (int, error) {
	v, err := m.need(key)
	if err != nil {
		return 0, err
	}
	i, ok, fits := toInt(v)
	if !ok {
		return 0, m.mismatch(key, v, "an integer")
	}
	if !fits {
		return 0, m.fault(key, "found %v, which is beyond the largest integer %d", v, math.MaxInt)
	}
	return i, nil
}

// Float returns the number under key: a float of either width, or an integer, for some writers store 10000 as one.
func (m *Metadata) Float(key string) (float64, error) {
	v, err := m.need(key)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	}
	i, ok, fits := toInt(v)
	if !ok || !fits {
		return 0, m.mismatch(key, v, "a number")
	}
	return float64(i), nil
}

// Strings returns the array of strings under key. The slice is the metadata's own: do not write to it.
func (m *Metadata) Strings(key string) ([]string, error) {
	return scalar[[]string](m, key, "an array of strings")
}

// Ints returns the array of integers under key, whatever their width and sign in the file.
func (m *Metadata) Ints(key string) ([]int, error) {
	v, err := m.need(key)
	if err != nil {
		return nil, err
	}
	var out []int
	bad := -1
	switch v := v.(type) {
	case []uint8:
		out, bad = widen(v)
	case []int8:
		out, bad = widen(v)
	case []uint16:
		out, bad = widen(v)
	case []int16:
		out, bad = widen(v)
	case []uint32:
		out, bad = widen(v)
	case []int32:
		out, bad = widen(v)
	case []uint64:
		out, bad = widen(v)
	case []int64:
		out, bad = widen(v)
	default:
		return nil, m.mismatch(key, v, "an array of integers")
	}
	if bad >= 0 {
		return nil, m.fault(key, "element %d is outside the integers of this machine, %d to %d", bad, math.MinInt, math.MaxInt)
	}
	return out, nil
}

// Floats returns the array of floats under key, of either width.
func (m *Metadata) Floats(key string) ([]float64, error) {
	v, err := m.need(key)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []float32:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out, nil
	case []float64:
		return v, nil
	}
	return nil, m.mismatch(key, v, "an array of floats")
}

// scalar returns the value under key if it has exactly the type T.
func scalar[T any](m *Metadata, key, want string) (T, error) {
	v, err := m.need(key)
	if err != nil {
		var none T
		return none, err
	}
	t, ok := v.(T)
	if !ok {
		return t, m.mismatch(key, v, want)
	}
	return t, nil
}

type integer interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64
}

// narrow converts v to int and says whether the value survived.
func narrow[T integer](v T) (i int, fits bool) {
	i = int(v)
	return i, T(i) == v && (i < 0) == (v < 0)
}

// widen converts an array to ints; bad is the index of the first element that does not fit, or -1.
func widen[T integer](v []T) (out []int, bad int) {
	out = make([]int, len(v))
	for i, x := range v {
		n, fits := narrow(x)
		if !fits {
			return nil, i
		}
		out[i] = n
	}
	return out, -1
}

// toInt converts an integer of any width; ok is false for other types.
func toInt(v any) (i int, ok, fits bool) {
	ok = true
	switch v := v.(type) {
	case uint8:
		i, fits = narrow(v)
	case int8:
		i, fits = narrow(v)
	case uint16:
		i, fits = narrow(v)
	case int16:
		i, fits = narrow(v)
	case uint32:
		i, fits = narrow(v)
	case int32:
		i, fits = narrow(v)
	case uint64:
		i, fits = narrow(v)
	case int64:
		i, fits = narrow(v)
	default:
		ok = false
	}
	return i, ok, fits
}

func (m *Metadata) need(key string) (any, error) {
	v, ok := m.value[key]
	if !ok {
		return nil, m.fault(key, "%w", ErrNoKey)
	}
	return v, nil
}

func (m *Metadata) mismatch(key string, found any, want string) error {
	return m.fault(key, "found %s, want %s", typeName(found), want)
}

func (m *Metadata) fault(key, format string, args ...any) error {
	at := "gguf: "
	if m.file != "" {
		at += m.file + ": "
	}
	return fmt.Errorf(at+"metadata key %q: "+format, append([]any{key}, args...)...)
}

// typeName describes a value's type with a file's words: "uint32", "array of 3 strings".
func typeName(v any) string {
	kind, n := kindOf(v)
	switch {
	case kind == kindNone:
		return fmt.Sprintf("Go type %T", v)
	case n >= 0:
		return fmt.Sprintf("array of %d %ss", n, kind)
	}
	return kind.String()
}
