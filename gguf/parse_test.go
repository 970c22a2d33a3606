package gguf

import (
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestAFileInMemoryReadsAsTheOneOnDisk(t *testing.T) {
	const path = "testdata/values.gguf"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("inside", data)
	if err != nil {
		t.Fatal(err)
	}
	want := open(t, path)
	if !maps.EqualFunc(maps.Collect(got.Meta.All()), maps.Collect(want.Meta.All()), reflect.DeepEqual) || len(got.Tensors) != len(want.Tensors) || got.Version != want.Version || got.Alignment != want.Alignment {
		t.Errorf("found %d tensors and %d keys, want %d and %d, alike", len(got.Tensors), got.Meta.Len(), len(want.Tensors), want.Meta.Len())
	}
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || g.Type != w.Type || !reflect.DeepEqual(g.Shape, w.Shape) || string(g.Data) != string(w.Data) {
			t.Errorf("tensor %s differs", w.Name)
		}
	}
	got.Tensors[0].Release(0, 1) // there is nobody to tell
	got.Release()
	if err := got.Close(); err != nil || got.Tensors[0].Data != nil {
		t.Errorf("closing: %v, with data left: %v", err, got.Tensors[0].Data != nil)
	}
}

func TestBytesThatAreNoWholeFileAreRefusedByName(t *testing.T) {
	member, err := os.ReadFile("testdata/set-00002-of-00003.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"nothing", "inside", nil},
		{"another kind of file", "not a GGUF file", []byte("PK\x03\x04 and so on")},
		{"a member of a set", "merge the set", member},
	} {
		if _, err := Parse("inside", c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
