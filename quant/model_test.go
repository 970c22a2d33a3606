package quant

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

// Every tensor of the real files dequantises to the oracle's bytes. MEMRA_MODELS names the folder that tools/models fills.
func TestEveryTensorOfTheRealFilesEqualsTheOracle(t *testing.T) {
	dir := os.Getenv("MEMRA_MODELS")
	if dir == "" {
		t.Skip("MEMRA_MODELS is not set")
	}
	lists, err := filepath.Glob("testdata/*.sha256")
	if err != nil || len(lists) == 0 {
		t.Fatalf("found no lists of hashes: %v", err)
	}
	for _, list := range lists {
		name := strings.TrimSuffix(filepath.Base(list), ".sha256")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := gguf.Open(filepath.Join(dir, name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			file, err := os.Open(list)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			checked := 0
			for lines := bufio.NewScanner(file); lines.Scan(); checked++ {
				var want, format, name string
				if _, err := fmt.Sscan(lines.Text(), &want, &format, &name); err != nil {
					t.Fatal(err)
				}
				tensor, ok := f.Tensor(name)
				if !ok || tensor.Type.String() != format {
					t.Fatalf("%s: found %v, want a tensor of %s", name, tensor, format)
				}
				if got := hash(t, tensor); got != want {
					t.Errorf("%s %s: found the hash %s, want %s", name, format, got, want)
				}
			}
			if checked != len(f.Tensors) {
				t.Errorf("the list has %d tensors, the file %d", checked, len(f.Tensors))
			}
		})
	}
}

// hash returns the SHA-256 of the tensor's values as little-endian float32.
func hash(t *testing.T, tensor *gguf.Tensor) string {
	t.Helper()
	f, err := For(tensor.Type)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.New()
	chunk := f.Block * max(1, 16384/f.Block)
	values, bytes := make([]float32, chunk), make([]byte, 4*chunk)
	for data := tensor.Data; len(data) > 0; {
		n := min(len(data)/f.Bytes*f.Block, chunk)
		f.Dequantize(values[:n], data[:n/f.Block*f.Bytes])
		data = data[n/f.Block*f.Bytes:]
		for i, v := range values[:n] {
			binary.LittleEndian.PutUint32(bytes[4*i:], math.Float32bits(v))
		}
		digest.Write(bytes[:4*n])
	}
	return fmt.Sprintf("%x", digest.Sum(nil))
}
