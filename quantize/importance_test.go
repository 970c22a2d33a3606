package quantize

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/bounded"
)

// floats32 is the bytes of little-endian float32.
func floats32(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// writeImportance writes an importance matrix of one tensor, as llama-imatrix does.
func writeImportance(t testing.TB, dir, tensor string, sums []float32, counts ...float32) string {
	t.Helper()
	meta := new(gguf.Metadata)
	meta.Set("general.type", "imatrix")
	meta.Set("imatrix.datasets", []string{"a text"})
	meta.Set("imatrix.chunk_count", uint32(1))
	meta.Set("imatrix.chunk_size", uint32(512))
	path := filepath.Join(dir, "imatrix.gguf")
	err := gguf.Write(path, meta, []gguf.Tensor{
		{Name: tensor + ".in_sum2", Type: gguf.F32, Shape: []int{len(counts), len(sums) / len(counts)}, Data: floats32(sums...)},
		{Name: tensor + ".counts", Type: gguf.F32, Shape: []int{len(counts), 1}, Data: floats32(counts...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportanceIsSumsOverCounts(t *testing.T) {
	m, err := ReadImportance(writeImportance(t, t.TempDir(), "x.weight", []float32{2, 4, 6, 8, 5, 5}, 2, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.matrix["x.weight"], []float32{1, 2, 1.5, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v: a matrix that no row met counts alike", got, want)
	}
}

// old is an importance matrix of the older kind.
func old() (b []byte) {
	number := func(n int32) { b = binary.LittleEndian.AppendUint32(b, uint32(n)) }
	number(1)
	number(8)
	b = append(b, "x.weight"...)
	number(2) // calls
	number(3)
	return append(b, floats32(2, 4, 8)...)
}

func TestTheOlderKindOfImportanceIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "imatrix.dat")
	if err := os.WriteFile(path, old(), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := ReadImportance(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.matrix["x.weight"], []float32{1, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestWhatIsNoImportanceIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"empty":                {},
		"cut short":            old()[:30],
		"a name without end":   slices.Concat([]byte{1, 0, 0, 0, 255, 255, 255, 127}, make([]byte, 40)),
		"no entries":           make([]byte, 8),
		"a negative number":    slices.Concat(old()[:28], floats32(-1, 1, 1)),
		"a number that is not": slices.Concat(old()[:28], floats32(float32(math.NaN()), 1, 1)),
		"text":                 []byte(strings.Repeat("importance ", 10)),
	} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadImportance(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: found the error %v, want one that names the file", name, err)
		}
	}
}

func FuzzReadImportance(f *testing.F) {
	f.Add(old())
	current, err := os.ReadFile(writeImportance(f, f.TempDir(), "x.weight", []float32{2, 4, 6, 8}, 2, 4))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(current)
	path := filepath.Join(f.TempDir(), "file")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		bounded.Read(t, len(data), func() { ReadImportance(path) })
	})
}
