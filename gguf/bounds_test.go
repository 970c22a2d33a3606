package gguf

import (
	"bytes"
	"fmt"
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
