package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// raw puts a file together field by field, right or wrong.
func raw(parts ...[]byte) []byte {
	return append([]byte(magic), bytes.Join(parts, nil)...)
}

func u32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
func str(s string) []byte { return append(u64(uint64(len(s))), s...) }

// info1 is a tensor table's entry for a tensor of one dimension.
func info1(name string, n uint64, t Type, offset uint64) []byte {
	return bytes.Join([][]byte{str(name), u32(1), u64(n), u32(uint32(t)), u64(offset)}, nil)
}

// oneKey is a file with one key, of which value is type and value.
func oneKey(value ...[]byte) []byte {
	return raw(u32(3), u64(0), u64(1), str("some.key"), bytes.Join(value, nil))
}

// table is a file with these tensors and n bytes of tensor data.
func table(n int, infos ...[]byte) []byte {
	head := raw(u32(3), u64(uint64(len(infos))), u64(0), bytes.Join(infos, nil))
	head = append(head, make([]byte, alignUp(uint64(len(head)), 32)-uint64(len(head)))...)
	return append(head, make([]byte, n)...)
}

func aligned(to []byte) []byte {
	return raw(u32(3), u64(0), u64(1), str(alignmentKey), to)
}

func nested(depth int) []byte {
	var b []byte
	for range depth {
		b = append(append(b, u32(9)...), u64(1)...)
	}
	return append(append(b, u32(0)...), u64(0)...)
}

func TestEachFaultHasItsOwnErrorWithThePlace(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want []string // besides the file's name
	}{
		{"half a magic", []byte("GG"), []string{"header", "byte 0", "the magic takes 4 bytes", "file of 2 bytes", "truncated"}},
		{"another file", []byte("PK\x03\x04abcd"), []string{"byte 0", `"PK\x03\x04"`, `want "GGUF"`}},
		{"an old version", raw(u32(1), u64(0), u64(0)), []string{"byte 4", "version 1", "want 2 or 3"}},
		{"a version to come", raw(u32(4), u64(0), u64(0)), []string{"byte 4", "version 4", "want 2 or 3"}},
		{"a big-endian version", raw([]byte{0, 0, 0, 3}, u64(0), u64(0)), []string{"byte 4", "version 3", "big-endian"}},
		{"no counts", raw(u32(3)), []string{"byte 8", "the number of tensors", "truncated"}},
		{"more tensors than bytes", raw(u32(3), u64(1<<60), u64(0)), []string{"header", "byte 8", "1152921504606846976 tensors", "hold at most 0"}},
		{"more keys than bytes", raw(u32(3), u64(0), u64(9), make([]byte, 30)), []string{"byte 16", "9 metadata keys", "hold at most 2"}},
		{"a key cut off", raw(u32(3), u64(0), u64(1), u64(50), make([]byte, 20)), []string{"key 0", "byte 32", "the key takes 50 bytes"}},
		{"a value of no type", oneKey(u32(13)), []string{`key 0 "some.key"`, "value type 13", "0 to 12"}},
		{"an array of no type", oneKey(u32(9), u32(77), u64(0)), []string{`key 0 "some.key"`, "an array of value type 77"}},
		{"a number cut off", oneKey(u32(10), u32(1)), []string{`key 0 "some.key"`, "uint64 takes 8 bytes", "has 4 left"}},
		{"a string cut off", oneKey(u32(8), u64(4), []byte("abc")), []string{`key 0 "some.key"`, "the string takes 4 bytes"}},
		{"an array cut off", oneKey(u32(9), u32(4), u64(3), u64(0)), []string{`key 0 "some.key"`, "3 uint32s in the array", "at most 2"}},
		{"a string of an array cut off", oneKey(u32(9), u32(8), u64(2), str("abc"), u64(9)), []string{`key 0 "some.key"`, "takes 9 bytes", "element 1 of 2"}},
		{"a bool of 2", oneKey(u32(7), []byte{2}), []string{`key 0 "some.key"`, "the byte 2", "0 or 1"}},
		{"a bool of 2 in an array", oneKey(u32(9), u32(7), u64(2), []byte{1, 2}), []string{`key 0 "some.key"`, "byte 57", "the byte 2"}},
		{"arrays nested too deep", oneKey(u32(9), nested(maxNesting)), []string{`key 0 "some.key"`, "nested more than 4 deep"}},
		{"a key twice", raw(u32(3), u64(0), u64(2), str("k"), u32(0), []byte{1}, str("k"), u32(0), []byte{1}), []string{`key 1 "k"`, "byte 38", "twice"}},
		{"a long name and no value", raw(u32(3), u64(0), u64(1), str(strings.Repeat("k", 200)), u32(99)), []string{strings.Repeat("k", 100) + `..."`, "value type 99"}},
		{"an alignment of 0", aligned(append(u32(4), u32(0)...)), []string{alignmentKey, "found 0", "power of two"}},
		{"an alignment of 24", aligned(append(u32(4), u32(24)...)), []string{alignmentKey, "found 24", "power of two"}},
		{"an alignment of -8", aligned(append(u32(5), u32(math.MaxUint32-7)...)), []string{alignmentKey, "found -8", "power of two"}},
		{"an alignment of 2^40", aligned(append(u32(10), u64(1<<40)...)), []string{alignmentKey, "found 1099511627776", "2^31"}},
		{"an alignment in words", aligned(append(u32(8), str("32")...)), []string{alignmentKey, "found string", "want an integer"}},
		{"five dimensions", table(0, append(append(str("t"), u32(5)...), make([]byte, 60)...)), []string{`tensor 0 "t"`, "5 dimensions", "at most 4"}},
		{"a dimension beyond int", table(0, info1("t", 1<<63, F32, 0)), []string{`tensor 0 "t"`, "dimension 0 is 9223372036854775808"}},
		{"a product beyond int", table(0, append(append(str("t"), u32(2)...), bytes.Join([][]byte{u64(1 << 62), u64(4), u32(0), u64(0)}, nil)...)),
			[]string{`tensor 0 "t"`, "shape [4 4611686018427387904]", "more than"}},
		{"a product beyond int that a uint64 holds", table(0, bytes.Join([][]byte{str("t"), u32(2), u64(1 << 62), u64(2), u32(uint32(I8)), u64(0)}, nil)),
			[]string{`tensor 0 "t"`, "shape [2 4611686018427387904]", "more than 9223372036854775807 values"}},
		{"bytes beyond 2^64", table(0, info1("t", 1<<62, F32, 0)), []string{`tensor 0 "t"`, "[4611686018427387904] of F32", "2^64 bytes"}},
		{"a type that is not known", table(0, info1("t", 1, 99, 0)), []string{`tensor 0 "t"`, "found type 99", "F32, F16, Q4_0", "NVFP4"}},
		{"a type that is no more", table(0, info1("t", 1, 4, 0)), []string{`tensor 0 "t"`, "found type 4", "F32, F16, Q4_0"}},
		{"a row of half a block", table(64, info1("t", 48, Q8_0, 0)), []string{`tensor 0 "t"`, "rows of 48", "multiple of 32", "Q8_0"}},
		{"an offset between alignments", table(64, info1("t", 1, F32, 16)), []string{`tensor 0 "t"`, "offset 16", "alignment 32"}},
		{"an offset past the end", table(64, info1("t", 1, F32, 96)), []string{`tensor 0 "t"`, "offset 96", "ends at byte 128", "truncated"}},
		{"an offset around the corner", table(64, info1("t", 1, F32, math.MaxUint64-31)), []string{`tensor 0 "t"`, "offset 18446744073709551584"}},
		{"data past the end", table(60, info1("t", 16, F32, 0)), []string{`tensor 0 "t"`, "F32 [16] takes 64 bytes", "ends at byte 124"}},
		{"no data at all", raw(u32(3), u64(1), u64(0), info1("t", 1, F32, 0)), []string{`tensor 0 "t"`, "takes 4 bytes", "truncated"}},
		{"a name twice", table(64, info1("t", 1, F32, 0), info1("t", 1, F32, 32)), []string{`tensor 1 "t"`, "tensor 0 has the same name"}},
		{"data of two tensors", table(128, info1("late", 1, F32, 96), info1("a", 17, F32, 0), info1("b", 1, F32, 64)),
			[]string{`tensor 2 "b"`, `inside that of tensor 1 "a"`}},
		{"one place for two tensors", table(64, info1("a", 1, F32, 32), info1("b", 1, F32, 32)), []string{`tensor 1 "b"`, `tensor 0 "a"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := save(t, "bad.gguf", c.file)
			f, err := Open(path)
			if err == nil {
				t.Fatalf("found no error, but %d tensors", len(f.Tensors))
			}
			for _, want := range append(c.want, "gguf: "+path+": ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("found the error %q, want it to contain %q", err, want)
				}
			}
			if strings.Count(err.Error(), "\n") > 0 || strings.Contains(err.Error(), "%!") {
				t.Errorf("found the error %q, want one well-formed line", err)
			}
		})
	}
}

// Every prefix of a good file is refused, or is the file without padding that nobody reads.
func TestATruncatedFileIsRefusedWhereverItEnds(t *testing.T) {
	whole, err := os.ReadFile("testdata/values.gguf")
	if err != nil {
		t.Fatal(err)
	}
	end := len(whole) - 24 // the last tensor has 8 bytes of 32
	for n := range whole {
		if _, err := readHeader("f", whole[:n]); (err == nil) != (n >= end) {
			t.Errorf("the first %d of %d bytes: found the error %v", n, len(whole), err)
		}
	}
}

func TestOddFilesThatAreLegalLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
	}{
		{"nothing at all", raw(u32(3), u64(0), u64(0))},
		{"version 2", append(raw(u32(2)), table(32, info1("t", 8, F32, 0))[8:]...)},
		{"an empty key", raw(u32(3), u64(0), u64(1), str(""), u32(0), []byte{7})},
		{"an empty name", table(32, info1("", 1, F32, 0))},
		{"text that is not UTF-8", oneKey(u32(8), str("\xff\xfe"))},
		{"an empty array of arrays", oneKey(u32(9), u32(9), u64(0))},
		{"an empty array of strings", oneKey(u32(9), u32(8), u64(0))},
		{"arrays nested as deep as allowed", oneKey(u32(9), nested(maxNesting-1))},
		{"a tensor without dimensions", table(4, bytes.Join([][]byte{str("t"), u32(0), u32(0), u64(0)}, nil))},
		{"a dimension of zero", table(0, info1("t", 0, Q4_K, 0))},
		{"zero times a product beyond int", table(0, bytes.Join([][]byte{str("t"), u32(3), u64(1 << 62), u64(1 << 62), u64(0), u32(0), u64(0)}, nil))},
		{"an empty tensor behind padding that is not there", table(4, info1("a", 1, F32, 0), info1("b", 0, F32, 32))},
		{"an empty tensor at another's place", table(4, info1("a", 1, F32, 0), info1("b", 0, F32, 0))},
		{"tensors out of order, with a gap", table(128, info1("a", 1, F32, 96), info1("b", 1, F32, 0))},
		{"an alignment of 1", raw(u32(3), u64(1), u64(1), str(alignmentKey), u32(0), []byte{1}, info1("t", 1, F32, 1), make([]byte, 5))},
	} {
		t.Run(c.name, func(t *testing.T) {
			open(t, save(t, "odd.gguf", c.file))
		})
	}
}

func TestAFileThatIsNoneIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, path, want string }{
		{"a folder", dir, "is a folder"},
		{"an empty file", save(t, "empty.gguf", nil), "is empty"},
		{"a device", "/dev/null", "regular file"},
		{"no file", filepath.Join(dir, "none.gguf"), "no such file"},
		{"a big-endian file", "testdata/big-endian.gguf", "big-endian"},
	} {
		if _, err := Open(c.path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: found the error %v, want one with %q and the path", c.name, err, c.want)
		}
	}
	if _, err := Open(filepath.Join(dir, "none.gguf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("found the error %v, want it to be os.ErrNotExist", err)
	}
}

func TestAFaultySetIsRefusedWithTheFileToBlame(t *testing.T) {
	encode := func(no, count, total any, tensor string) []byte {
		meta := new(Metadata)
		if no != nil {
			meta.Set(splitNoKey, no)
		}
		meta.Set(splitCountKey, count)
		meta.Set(splitTensorsKey, total)
		var b bytes.Buffer
		if err := Encode(&b, meta, []Tensor{{Name: tensor, Type: I8, Shape: []int{1}, Data: []byte{1}}}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	member := func(no, count, total int, tensor string) []byte {
		return encode(uint16(no), uint16(count), int32(total), tensor)
	}
	set := func(no, count, total any) []byte { return encode(no, count, total, "a") }
	const one, two, three = "m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"
	for _, c := range []struct {
		name  string
		files map[string][]byte
		open  string
		want  []string
	}{
		{"all is well", map[string][]byte{one: member(0, 3, 3, "a"), two: member(1, 3, 3, "b"), three: member(2, 3, 3, "c")}, two, nil},
		{"a set of one with any name", map[string][]byte{"m.gguf": member(0, 1, 1, "a")}, "m.gguf", nil},
		{"a merged set", map[string][]byte{"m.gguf": member(0, 0, 9, "a")}, "m.gguf", nil},
		{"the last is missing", map[string][]byte{one: member(0, 3, 3, "a"), two: member(1, 3, 3, "b")}, one, []string{"1 of the set's 3 files are missing", three}},
		{"two are missing", map[string][]byte{two: member(1, 3, 3, "b")}, two, []string{"2 of the set's 3 files are missing", one + ", " + three}},
		{"many are missing", map[string][]byte{"m-00002-of-00020.gguf": member(1, 20, 3, "b")}, "m-00002-of-00020.gguf", []string{"19 of the set's 20", "..."}},
		{"renamed", map[string][]byte{"x.gguf": member(1, 3, 3, "b")}, "x.gguf", []string{"file 2 of 3", "-00002-of-00003.gguf"}},
		{"renamed as another member", map[string][]byte{one: member(1, 3, 3, "b")}, one, []string{"the name says file 1 of 3", "metadata says file 2 of 3"}},
		{"a sibling is another member", map[string][]byte{one: member(0, 3, 3, "a"), two: member(2, 3, 3, "b"), three: member(2, 3, 3, "c")}, one,
			[]string{two, "split.no 2 and split.count 3", "want 1 and 3"}},
		{"a sibling is of a larger set", map[string][]byte{one: member(0, 3, 3, "a"), two: member(1, 4, 3, "b"), three: member(2, 3, 3, "c")}, one,
			[]string{two, "split.no 1 and split.count 4"}},
		{"two have changed places", map[string][]byte{one: member(0, 3, 3, "a"), two: member(2, 3, 3, "c"), three: member(1, 3, 3, "b")}, one,
			[]string{two, "split.no 2 and split.count 3", "want 1 and 3"}},
		{"a sibling is broken", map[string][]byte{one: member(0, 3, 3, "a"), two: []byte("GGML"), three: member(2, 3, 3, "c")}, three, []string{two, "header", `want "GGUF"`}},
		{"a tensor in two files", map[string][]byte{one: member(0, 3, 3, "a"), two: member(1, 3, 3, "a"), three: member(2, 3, 3, "c")}, one,
			[]string{two, `tensor "a"`, "earlier file"}},
		{"a tensor too few", map[string][]byte{one: member(0, 3, 4, "a"), two: member(1, 3, 4, "b"), three: member(2, 3, 4, "c")}, one,
			[]string{one, "have 3 tensors, want 4"}},
		{"a number beyond the count", map[string][]byte{one: member(3, 3, 3, "a")}, one, []string{splitNoKey, "found 3, want 0 to 2"}},
		{"a count beyond five digits", map[string][]byte{one: set(int32(0), int32(100000), int32(3))}, one, []string{splitCountKey, "found 100000"}},
		{"a count in words", map[string][]byte{one: set(int32(0), "three", int32(3))}, one, []string{splitCountKey, "found string"}},
		{"no number", map[string][]byte{one: set(nil, int32(3), int32(3))}, one, []string{splitNoKey, "no such key"}},
		{"a total in words", map[string][]byte{one: set(int32(0), int32(3), "3"), two: member(1, 3, 3, "b"), three: member(2, 3, 3, "c")}, one,
			[]string{one, splitTensorsKey, "found string"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, b := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			f, err := Open(filepath.Join(dir, c.open))
			if c.want == nil {
				if err != nil || f.Close() != nil {
					t.Fatalf("found the error %v", err)
				}
				return
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("found the error %v, want it to contain %q", err, want)
				}
			}
		})
	}
}
