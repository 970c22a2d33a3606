package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// open opens a file of testdata and closes it with the test.
func open(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// save writes bytes to a new file.
func save(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The values of tools/oracle/containers.py, in its order.
var oracleValues = []struct {
	key   string
	value any
}{
	{"general.architecture", "test"},
	{"one.uint8", uint8(200)},
	{"one.int8", int8(-100)},
	{"one.uint16", uint16(60000)},
	{"one.int16", int16(-30000)},
	{"one.uint32", uint32(4000000000)},
	{"one.int32", int32(-2000000000)},
	{"one.float32", float32(1.5)},
	{"one.bool", true},
	{"one.string", "naïve €"},
	{"one.uint64", uint64(1 << 63)},
	{"one.int64", int64(-1 << 62)},
	{"one.float64", 0.1},
	{"many.uint8", []uint8{1, 255}},
	{"many.int8", []int8{-1, 127}},
	{"many.uint16", []uint16{1, 65535}},
	{"many.int16", []int16{-1, 32767}},
	{"many.uint32", []uint32{1, 4294967295}},
	{"many.int32", []int32{-1, 2147483647}},
	{"many.float32", []float32{0.5, -2}},
	{"many.bool", []bool{true, false, true}},
	{"many.string", []string{"", "a", "länger"}},
	{"many.uint64", []uint64{1, 1 << 63}},
	{"many.int64", []int64{-1, 1 << 62}},
	{"many.float64", []float64{0.1, -1e300}},
	{"many.array", []any{[]int32{1, 2}, []int32{3}}},
}

func TestReadsWhatTheOracleWrote(t *testing.T) {
	f := open(t, "testdata/values.gguf")
	if f.Version != 3 || f.Alignment != 32 || f.Meta.Len() != len(oracleValues) {
		t.Errorf("found version %d, alignment %d, %d keys, want 3, 32, %d", f.Version, f.Alignment, f.Meta.Len(), len(oracleValues))
	}
	i := 0
	for key, v := range f.Meta.All() {
		if want := oracleValues[i]; key != want.key || !reflect.DeepEqual(v, want.value) {
			t.Errorf("key %d: found %s = %#v, want %s = %#v", i, key, v, want.key, want.value)
		}
		i++
	}
	for i, want := range []struct {
		name  string
		kind  Type
		shape []int
		bytes int
		sum   int
	}{ // as the oracle prints them, with the dimensions turned around
		{"cube", F32, []int{2, 3, 4}, 96, 4079},
		{"half", F16, []int{3, 4}, 24, 1014},
		{"blocks", Q8_0, []int{3, 64}, 204, 20706},
		{"ids", I32, []int{2}, 8, 1021},
	} {
		got := f.Tensors[i]
		sum := 0
		for _, b := range got.Data {
			sum += int(b)
		}
		if got.Name != want.name || got.Type != want.kind || !slices.Equal(got.Shape, want.shape) || len(got.Data) != want.bytes || sum != want.sum {
			t.Errorf("tensor %d: found %s %s %v, %d bytes with sum %d, want %+v", i, got.Name, got.Type, got.Shape, len(got.Data), sum, want)
		}
		if byName, ok := f.Tensor(want.name); !ok || byName != &f.Tensors[i] {
			t.Errorf("tensor %s: not found by its name", want.name)
		}
	}
	cube, _ := f.Tensor("cube")
	for i := range cube.Values() {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(cube.Data[4*i:])); v != float32(i) {
			t.Errorf("cube: value %d is %g", i, v)
		}
	}
	if _, ok := f.Tensor("sphere"); ok {
		t.Error("found a tensor that is not there")
	}
}

func TestAnyMemberOpensTheWholeSet(t *testing.T) {
	for no := 1; no <= 3; no++ {
		f := open(t, fmt.Sprintf("testdata/set-%05d-of-00003.gguf", no))
		var names []string
		for i := range f.Tensors {
			names = append(names, f.Tensors[i].Name)
		}
		if want := []string{"cube", "half", "blocks"}; !slices.Equal(names, want) {
			t.Errorf("from member %d: found the tensors %v, want %v", no, names, want)
		}
		if family, err := f.Meta.String("general.architecture"); family != "test" {
			t.Errorf("from member %d: found the family %q, %v: the first file's metadata counts", no, family, err)
		}
		if half, ok := f.Tensor("half"); !ok || len(half.Data) != 24 || binary.LittleEndian.Uint16(half.Data[2:]) != 0x3c00 {
			t.Errorf("from member %d: the second file's tensor does not read 0, 1, ...", no)
		}
	}
}

func TestDataSurvivesReleaseAndMetadataSurvivesClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pages.gguf")
	data := make([]byte, 5*os.Getpagesize()+100)
	for i := range data {
		data[i] = byte(i * 7)
	}
	meta := new(Metadata)
	meta.Set("key", []string{"value"})
	tensors := []Tensor{
		{Name: "a", Type: I8, Shape: []int{len(data)}, Data: data},
		{Name: "b", Type: I8, Shape: []int{len(data)}, Data: data},
	}
	if err := Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := f.Tensor("a")
	b, _ := f.Tensor("b")
	whole := func(t *Tensor) func() { return func() { t.Release(0, len(t.Data)) } }
	for _, release := range []func(){func() {}, whole(a), whole(b), f.Release, whole(&tensors[0])} {
		release()
		if !bytes.Equal(a.Data, data) || !bytes.Equal(b.Data, data) || !bytes.Equal(tensors[0].Data, data) {
			t.Fatal("data changed by a release")
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := f.Meta.Strings("key"); err != nil || v[0] != "value" || len(a.Data) != 0 {
		t.Errorf("after Close: found %v, %v and %d bytes of data, want the metadata and no data", v, err, len(a.Data))
	}
	a.Release(0, len(data))
	if err := f.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// A hostile count costs no memory: whatever is wrong is seen before space for it is made.
func TestRefusingAFileAllocatesNoMoreThanItCouldHold(t *testing.T) {
	const huge = 1 << 40
	for _, c := range []struct {
		name string
		file []byte
	}{
		{"tensors", raw(u32(3), u64(huge), u64(0))},
		{"keys", raw(u32(3), u64(0), u64(huge))},
		{"a string", raw(u32(3), u64(0), u64(1), str("k"), u32(8), u64(huge))},
		{"numbers", raw(u32(3), u64(0), u64(1), str("k"), u32(9), u32(0), u64(huge))},
		{"strings", raw(u32(3), u64(0), u64(1), str("k"), u32(9), u32(8), u64(huge))},
		{"arrays", raw(u32(3), u64(0), u64(1), str("k"), u32(9), u32(9), u64(huge))},
		{"strings that end early", append(raw(u32(3), u64(0), u64(1), str("k"), u32(9), u32(8), u64(100)), bytes.Repeat([]byte{255}, 800)...)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readHeader("f", c.file)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: found no error", c.name)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<16 {
			t.Errorf("%s: refusing %d bytes allocated %d", c.name, len(c.file), n)
		}
	}
}

func TestOpensTheRealFiles(t *testing.T) {
	dir := os.Getenv("MEMRA_MODELS")
	if dir == "" {
		t.Skip("MEMRA_MODELS is not set")
	}
	for _, c := range []struct {
		file, family    string
		tensors, pieces int
	}{
		{"SmolLM2-135M-Instruct.Q4_1.gguf", "llama", 272, 49152},
		{"gemma-3-270m-q4_k_m.gguf", "gemma3", 236, 262144},
	} {
		f := open(t, filepath.Join(dir, c.file))
		family, _ := f.Meta.String("general.architecture")
		pieces, err := f.Meta.Strings("tokenizer.ggml.tokens")
		if family != c.family || len(f.Tensors) != c.tensors || len(pieces) != c.pieces {
			t.Errorf("%s: found family %q, %d tensors, %d pieces (%v), want %+v", c.file, family, len(f.Tensors), len(pieces), err, c)
		}
	}
}

// BenchmarkStrings reads a vocabulary of the size of Gemma's.
func BenchmarkStrings(b *testing.B) {
	words := make([]string, 262144)
	for i := range words {
		words[i] = strings.Repeat("x", i%12)
	}
	meta := new(Metadata)
	meta.Set("tokens", words)
	var file bytes.Buffer
	if err := Encode(&file, meta, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readHeader("f", file.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
