package gguf

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestGettersTakeEveryWidthAndRefuseOtherTypes(t *testing.T) {
	m := &Metadata{file: "q.gguf"}
	for _, v := range oracleValues {
		m.Set(v.key, v.value)
	}
	m.Set("empty", []int16{})
	for _, c := range []struct {
		get  func(string) (any, error)
		key  string
		want any // or the words that the error must have
	}{
		{boxed(m.String), "one.string", "naïve €"},
		{boxed(m.String), "one.uint8", fault("q.gguf", `"one.uint8"`, "found uint8", "want a string")},
		{boxed(m.Bool), "one.bool", true},
		{boxed(m.Bool), "one.string", fault("found string", "want a bool")},
		{boxed(m.Int), "one.uint8", 200},
		{boxed(m.Int), "one.int8", -100},
		{boxed(m.Int), "one.uint16", 60000},
		{boxed(m.Int), "one.int16", -30000},
		{boxed(m.Int), "one.uint32", 4000000000},
		{boxed(m.Int), "one.int32", -2000000000},
		{boxed(m.Int), "one.int64", -1 << 62},
		{boxed(m.Int), "one.uint64", fault("found 9223372036854775808", "largest integer 9223372036854775807")},
		{boxed(m.Int), "one.float32", fault("found float32", "want an integer")},
		{boxed(m.Int), "one.bool", fault("found bool", "want an integer")},
		{boxed(m.Float), "one.float32", 1.5},
		{boxed(m.Float), "one.float64", 0.1},
		{boxed(m.Float), "one.uint32", 4e9},
		{boxed(m.Float), "many.float32", fault("found array of 2 float32s", "want a number")},
		{boxed(m.Strings), "many.string", []string{"", "a", "länger"}},
		{boxed(m.Strings), "many.array", fault("found array of 2 arrays", "want an array of strings")},
		{boxed(m.Ints), "many.uint8", []int{1, 255}},
		{boxed(m.Ints), "many.int8", []int{-1, 127}},
		{boxed(m.Ints), "many.uint16", []int{1, 65535}},
		{boxed(m.Ints), "many.int16", []int{-1, 32767}},
		{boxed(m.Ints), "many.uint32", []int{1, math.MaxUint32}},
		{boxed(m.Ints), "many.int32", []int{-1, math.MaxInt32}},
		{boxed(m.Ints), "many.int64", []int{-1, 1 << 62}},
		{boxed(m.Ints), "empty", []int{}},
		{boxed(m.Ints), "many.uint64", fault("element 1", "outside the integers")},
		{boxed(m.Ints), "one.uint8", fault("found uint8", "want an array of integers")},
		{boxed(m.Floats), "many.float32", []float64{0.5, -2}},
		{boxed(m.Floats), "many.float64", []float64{0.1, -1e300}},
		{boxed(m.Floats), "many.int8", fault("found array of 2 int8s", "want an array of floats")},
		{boxed(m.Int), "none", fault("q.gguf", `"none"`, "no such key")},
		{boxed(m.Ints), "none", fault("no such key")},
		{boxed(m.Floats), "none", fault("no such key")},
	} {
		got, err := c.get(c.key)
		words, bad := c.want.([]error)
		switch {
		case !bad && (err != nil || !reflect.DeepEqual(got, c.want)):
			t.Errorf("%s: found %#v, %v, want %#v", c.key, got, err, c.want)
		case bad && err == nil:
			t.Errorf("%s: found %#v, want an error", c.key, got)
		}
		for _, w := range words {
			if err != nil && !strings.Contains(err.Error(), w.Error()) {
				t.Errorf("%s: found the error %q, want it to contain %q", c.key, err, w)
			}
		}
	}
	if _, err := m.Int("none"); !errors.Is(err, ErrNoKey) {
		t.Errorf("found the error %v, want it to be ErrNoKey", err)
	}
	if _, err := m.Int("one.bool"); errors.Is(err, ErrNoKey) {
		t.Error("a key of another type is not an absent key")
	}
}

func boxed[T any](get func(string) (T, error)) func(string) (any, error) {
	return func(key string) (any, error) { return get(key) }
}

func fault(words ...string) []error {
	var out []error
	for _, w := range words {
		out = append(out, errors.New(w))
	}
	return out
}

func TestSetReplacesInPlaceAndAppendsAtTheEnd(t *testing.T) {
	m := new(Metadata)
	m.Set("a", uint8(1))
	m.Set("b", uint8(2))
	m.Set("a", "one")
	var keys []string
	for key := range m.All() {
		keys = append(keys, key)
		if len(keys) == 2 {
			break
		}
	}
	if v, ok := m.Get("a"); !reflect.DeepEqual(keys, []string{"a", "b"}) || v != "one" || !ok || m.Len() != 2 {
		t.Errorf("found the keys %v and a = %v, want a, b and one", keys, v)
	}
}

func TestTypesSayTheirNamesAndSizes(t *testing.T) {
	for _, c := range []struct {
		t             Type
		name          string
		values, bytes int
	}{
		{F32, "F32", 1, 4},
		{Q4_K, "Q4_K", 256, 144},
		{NVFP4, "NVFP4", 64, 36},
		{4, "type 4", 0, 0},
		{99, "type 99", 0, 0},
		{math.MaxUint32, "type 4294967295", 0, 0},
	} {
		if values, bytes := c.t.Block(); c.t.String() != c.name || values != c.values || bytes != c.bytes {
			t.Errorf("%d: found %s, %d values in %d bytes, want %+v", uint32(c.t), c.t, values, bytes, c)
		}
	}
}
