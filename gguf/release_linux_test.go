package gguf

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// resident returns how many KiB of a mapped file are in this process's memory.
func resident(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, after, found := strings.Cut(string(maps), path+"\n")
	if !found {
		t.Fatalf("%s is not mapped", path)
	}
	_, after, _ = strings.Cut(after, "Rss:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func TestReleaseGivesMemoryBack(t *testing.T) {
	const size = 1 << 20
	path := filepath.Join(t.TempDir(), "r.gguf")
	data := make([]byte, size)
	if err := Write(path, new(Metadata), []Tensor{
		{Name: "a", Type: I8, Shape: []int{size}, Data: data},
		{Name: "b", Type: I8, Shape: []int{size}, Data: data},
	}); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	touch := func() {
		sum := 0
		for i := range f.Tensors {
			for _, b := range f.Tensors[i].Data {
				sum += int(b)
			}
		}
		if sum != 0 {
			t.Fatal("the data is not what was written")
		}
	}
	touch()
	all := resident(t, path)
	f.Tensors[0].Release(0, size)
	half := resident(t, path)
	touch()
	again := resident(t, path)
	f.Release()
	none := resident(t, path)
	if all < 2048 || half > all-900 || half < 900 || again < 2048 || none > 100 {
		t.Errorf("KiB in memory: %d, one of two tensors released %d, read again %d, all released %d", all, half, again, none)
	}
}
