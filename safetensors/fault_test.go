package safetensors

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// raw is a file with this header, right or wrong, and n bytes of data.
func raw(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func wantError(t *testing.T, name string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", name, want)
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: the error lacks %q:\n%v", name, part, err)
		}
	}
}

func TestEachFaultHasItsOwnErrorWithThePlace(t *testing.T) {
	one := func(fields string) string { return `{"t":{` + fields + `}}` }
	const good = `"dtype":"F32","shape":[2],"data_offsets":[0,8]`
	for _, c := range []struct {
		name string
		file []byte
		want []string // besides the file's name
	}{
		{"half a length", []byte{1, 2}, []string{"has 2 bytes, want 8", "truncated"}},
		{"a length of 2^63", append(binary.LittleEndian.AppendUint64(nil, 1<<63), '{'), []string{"header has 9223372036854775808 bytes, want at most 100000000"}},
		{"a length of 100 MB and one", append(binary.LittleEndian.AppendUint64(nil, MaxHeader+1), '{'), []string{"100000001 bytes"}},
		{"a header that is cut off", raw(`{"t":`, 0)[:10], []string{"header of 5 bytes goes beyond the file", "has 2 left"}},
		{"no header", raw("", 0), []string{"the JSON ends where"}},
		{"another file", []byte("GGUF\x03\x00\x00\x00abcdefgh"), []string{"not a safetensors file"}},
		{"an array", raw(`[]`, 0), []string{`found "["`, `want "{"`}},
		{"half of the JSON", raw(`{"t":{"dtype":"F32"`, 0), []string{`tensor "t"`, `the JSON ends where "}" should be`}},
		{"text after the JSON", raw(`{} x`, 0), []string{"2 bytes after the JSON object"}},
		{"a name that does not end", raw(`{"`+strings.Repeat("x", 1<<21)+`":{}}`, 0), []string{"the text at byte 1 is longer than 1048576 bytes"}},
		{"a tensor twice", raw(`{"t":{`+good+`},"t":{`+good+`}}`, 8), []string{`tensor "t"`, "twice"}},
		{"a tensor that is a number", raw(`{"t":1}`, 0), []string{`tensor "t"`, "found 1", `want "{"`}},
		{"a field twice", raw(one(`"dtype":"F32",`+good), 8), []string{`tensor "t"`, `"dtype" is there twice`}},
		{"a field of another name", raw(one(good+`,"strides":[1]`), 8), []string{`tensor "t"`, "strides", "want dtype, shape and data_offsets alone"}},
		{"no type", raw(one(`"shape":[2],"data_offsets":[0,8]`), 8), []string{`tensor "t"`, "dtype is missing"}},
		{"no shape", raw(one(`"dtype":"F32","data_offsets":[0,8]`), 8), []string{`tensor "t"`, "shape is missing"}},
		{"no offsets", raw(one(`"dtype":"F32","shape":[2]`), 8), []string{`tensor "t"`, "data_offsets is missing"}},
		{"a type of no name", raw(one(`"dtype":7,"shape":[2],"data_offsets":[0,8]`), 8), []string{"dtype: found 7", "want a type's name"}},
		{"a type that is not known", raw(one(`"dtype":"F7","shape":[2],"data_offsets":[0,8]`), 8), []string{`found "F7"`, "F64, F32, F16, BF16, F8_E4M3"}},
		{"a dimension below zero", raw(one(`"dtype":"F32","shape":[-2],"data_offsets":[0,8]`), 8), []string{"shape: found -2", "0 to 2^64-1"}},
		{"half a dimension", raw(one(`"dtype":"F32","shape":[1.5],"data_offsets":[0,8]`), 8), []string{"shape: found 1.5"}},
		{"a dimension of 2^63", raw(one(`"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]`), 8), []string{"dimension 0 is 9223372036854775808"}},
		{"a product beyond 2^63", raw(one(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]`), 8), []string{"more than 2^63 bits"}},
		{"nine dimensions", raw(one(`"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]`), 4), []string{"shape: found more than 8 numbers"}},
		{"three offsets", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[0,8,9]`), 8), []string{"data_offsets: found more than 2"}},
		{"one offset", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[0]`), 8), []string{"data_offsets: found 1 numbers, want 2"}},
		{"an end before the start", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[8,0]`), 8), []string{"[8 0] end before they begin"}},
		{"offsets of another size", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[0,7]`), 8), []string{"hold 7 bytes, want 8 for F32 [2]"}},
		{"half a byte", raw(one(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2), []string{"12 bits, want whole bytes"}},
		{"data that is cut off", raw(one(good), 7), []string{`tensor "t"`, "ends at byte 8", "has 7", "truncated"}},
		{"an offset near 2^64", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[18446744073709551607,18446744073709551615]`), 8), []string{"ends at byte 18446744073709551615"}},
		{"data of nobody at the end", raw(one(good), 9), []string{"has 9 bytes of tensor data, its tensors 8"}},
		{"data of nobody at the start", raw(one(`"dtype":"F32","shape":[2],"data_offsets":[1,9]`), 9), []string{"starts at byte 1", "want 0, right after the header"}},
		{"tensors that overlap", raw(`{"t":{`+good+`},"u":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), []string{`tensor "u"`, "starts at byte 4", "inside that of t, which ends at byte 8"}},
		{"two tensors in one place", raw(`{"t":{`+good+`},"u":{`+good+`}}`, 8), []string{`tensor "u"`, "inside that of t"}},
		{"a gap between tensors", raw(`{"t":{`+good+`},"u":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16), []string{`tensor "u"`, "want 8, right after t"}},
		{"metadata of numbers", raw(`{"__metadata__":{"a":1}}`, 0), []string{"__metadata__", `"a"`, "found 1, want a text"}},
		{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, 0), []string{"twice"}},
		{"a name in metadata twice", raw(`{"__metadata__":{"a":"","a":""}}`, 0), []string{`"a" is there twice`}},
		{"a long name", raw(`{"`+strings.Repeat("n", 300)+`":1}`, 0), []string{strings.Repeat("n", 100) + "..."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.safetensors")
			if err := os.WriteFile(path, c.file, 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path)
			wantError(t, c.name, err, append(c.want, "safetensors: ", path)...)
			if err == nil {
				f.Close()
			}
		})
	}
}

func TestAFolderThatIsNoModelIsRefused(t *testing.T) {
	tensor := func(name string) []byte {
		return raw(`{"`+name+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
	}
	index := func(entries string) []byte {
		return []byte(`{"metadata":{"total_size":2},"weight_map":{` + entries + `}}`)
	}
	const one, two = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	both := index(`"a":"` + one + `","b":"` + two + `"`)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  []string // nil: it opens
	}{
		{"all is well", map[string][]byte{indexName: both, one: tensor("a"), two: tensor("b")}, nil},
		{"shards without an index", map[string][]byte{one: tensor("a"), two: tensor("b")}, nil},
		{"one file beside a copy", map[string][]byte{singleName: tensor("a"), "consolidated.safetensors": tensor("z")}, nil},
		{"nothing", map[string][]byte{}, []string{"no weights", singleName, indexName}},
		{"a GGUF file", map[string][]byte{"q.gguf": nil}, []string{"it has q.gguf, name that file"}},
		{"pickled weights", map[string][]byte{"pytorch_model.bin": nil}, []string{"pytorch_model.bin, which is not read"}},
		{"an adapter", map[string][]byte{"adapter_model.safetensors": tensor("a")}, []string{"adapter_model.safetensors, which is no name"}},
		{"the last shard is missing", map[string][]byte{indexName: both, one: tensor("a")}, []string{"1 of the model's 2 files are missing: " + two}},
		{"a shard without an index is missing", map[string][]byte{two: tensor("b")}, []string{"1 of the model's 2 files are missing: " + one}},
		{"shards of no count", map[string][]byte{"model-00000-of-00000.safetensors": tensor("b")}, []string{"no weights"}},
		{"a shard that is broken", map[string][]byte{indexName: both, one: tensor("a"), two: []byte("x")}, []string{two, "has 1 bytes"}},
		{"a shard that is empty", map[string][]byte{indexName: both, one: tensor("a"), two: nil}, []string{two, "is empty"}},
		{"shards exchanged", map[string][]byte{indexName: both, one: tensor("b"), two: tensor("a")}, []string{`tensor "a"`, "said to be in " + one, two + " has it"}},
		{"a tensor in no shard", map[string][]byte{indexName: index(`"a":"` + one + `","b":"` + one + `"`), one: tensor("a")}, []string{`tensor "b"`, "does not have it"}},
		{"a tensor in no index", map[string][]byte{indexName: index(`"a":"` + one + `"`), one: raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2)}, []string{`tensor "c"`, "not in the index"}},
		{"a tensor in two shards", map[string][]byte{one: tensor("a"), two: tensor("a")}, []string{two, `tensor "a"`, one + " has a tensor of the same name"}},
		{"a shard above", map[string][]byte{indexName: index(`"a":"../m.safetensors"`)}, []string{`"../m.safetensors"`, "in the same folder"}},
		{"a shard elsewhere", map[string][]byte{indexName: index(`"a":"/etc/m.safetensors"`)}, []string{`"/etc/m.safetensors"`, "in the same folder"}},
		{"a shard below, as Windows says it", map[string][]byte{indexName: index(`"a":"x\\m.safetensors"`)}, []string{"in the same folder"}},
		{"a shard of no name", map[string][]byte{indexName: index(`"a":".."`)}, []string{`".."`, "in the same folder"}},
		{"a shard that is no shard", map[string][]byte{indexName: index(`"a":"config.json"`)}, []string{`"config.json"`}},
		{"an index that names a tensor twice", map[string][]byte{indexName: index(`"a":"` + one + `","a":"` + two + `"`)}, []string{"weight_map", `"a" is there twice`}},
		{"an index with two maps", map[string][]byte{indexName: []byte(`{"weight_map":{},"weight_map":{}}`)}, []string{"weight_map is there twice"}},
		{"an index of nothing", map[string][]byte{indexName: []byte(`{}`)}, []string{indexName, "no weight_map"}},
		{"an index that is cut off", map[string][]byte{indexName: both[:40]}, []string{indexName}},
		{"an index of numbers", map[string][]byte{indexName: []byte(`{"weight_map":{"a":1}}`)}, []string{`"a"`, "found 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			f, err := OpenFolder(dir)
			if c.want != nil {
				wantError(t, c.name, err, append(c.want, dir)...)
			} else if err != nil {
				t.Fatal(err)
			}
			if err == nil {
				f.Close()
			}
		})
	}
	_, err := OpenFolder(t.TempDir())
	if !errors.Is(err, ErrNoWeights) {
		t.Errorf("an empty folder: %v, want ErrNoWeights", err)
	}
	if _, err := OpenFolder(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v, want fs.ErrNotExist", err)
	}
}

func TestAHostileHeaderCostsLittle(t *testing.T) {
	for _, c := range []struct{ name, header string }{
		{"a shape of a million numbers", `{"t":{"dtype":"F32","shape":[` + strings.Repeat("1,", 1_000_000) + `1]}}`},
		{"brackets in brackets", `{"t":` + strings.Repeat("[", 1_000_000)},
		{"a name of a megabyte", `{"` + strings.Repeat("x", 1_000_000) + `":{}}`},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readHeader("f", raw(c.header, 0))
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
	}
}
