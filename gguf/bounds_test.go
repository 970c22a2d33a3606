package gguf

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"memra/internal/bounded"
)

// mebibytes repeats a part of a file until it has n MiB, and says how often.
func mebibytes(n int, part []byte) ([]byte, uint64) {
	times := n << 20 / len(part)
	return bytes.Repeat(part, times), uint64(times)
}

func TestAHeaderOfCrumbsIsRefusedWithinBounds(t *testing.T) {
	var keys, infos bytes.Buffer
	for i := range 300_000 {
		keys.Write(bytes.Join([][]byte{str(fmt.Sprintf("%x", i)), u32(0), {1}}, nil))
		infos.Write(bytes.Join([][]byte{str(fmt.Sprintf("%x", i)), u32(0), u32(uint32(I8)), u64(0)}, nil))
	}
	empty, empties := mebibytes(48, str(""))
	inner, inners := mebibytes(48, bytes.Join([][]byte{u32(0), u64(0)}, nil))
	small, smalls := mebibytes(48, bytes.Join([][]byte{u32(8), u64(1), str("")}, nil))
	for _, c := range []struct {
		name string
		file []byte
	}{
		{"empty strings", oneKey(u32(9), u32(8), u64(empties), empty)},
		{"empty arrays", oneKey(u32(9), u32(9), u64(inners), inner)},
		{"arrays of an empty string", oneKey(u32(9), u32(9), u64(smalls), small)},
		{"keys", raw(u32(3), u64(0), u64(300_000), keys.Bytes())},
		{"tensors", append(raw(u32(3), u64(300_000), u64(0), infos.Bytes()), make([]byte, 1<<20)...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			bounded.Read(t, len(c.file), func() { _, err = readHeader("f", c.file) })
			if err == nil || !strings.Contains(err.Error(), "bytes of memory") {
				t.Errorf("error %v, want one about memory", err)
			}
		})
	}
}

func TestStringsOfGigabytesAreRefusedUnread(t *testing.T) {
	const size = 2 << 30
	for _, c := range []struct {
		name string
		head []byte // up to where the string's bytes stand
		want string
	}{
		{"a value", raw(u32(3), u64(0), u64(1), str("some.key"), u32(8), u64(size)), `key 0 "some.key", at byte 44: the string has 2147483648 bytes, want at most 268435456`},
		{"a key", raw(u32(3), u64(0), u64(1), u64(size)), "key 0, at byte 24: the key has 2147483648 bytes"},
		{"a tensor's name", raw(u32(3), u64(1), u64(0), u64(size)), "tensor 0, at byte 24: the name has 2147483648 bytes"},
		{"a string of an array", oneKey(u32(9), u32(8), u64(1), u64(size)), "a string of the array has 2147483648 bytes"},
		{"a length beyond the file", raw(u32(3), u64(0), u64(1), str("some.key"), u32(8), u64(4*size)), "has 2147483648 left"},
	} {
		path := save(t, "huge.gguf", c.head)
		if err := os.Truncate(path, int64(len(c.head))+size); err != nil { // the rest is a hole in the file
			t.Fatal(err)
		}
		bounded.Read(t, len(c.head), func() {
			_, err := Open(path)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			}
		})
	}
}
