package memra

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFingerprintIsOfWhatAFileHoldsAndNotOfItsName(t *testing.T) {
	path := tinyModel(t, "llama-plain")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fingerprint := func(path string) string {
		m, err := Open(path, Options{Device: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Fingerprint()
	}
	want := fingerprint(path)
	if got := fingerprint(write("another.gguf", data)); got != want {
		t.Errorf("a copy has %s, want %s", got, want)
	}
	data[len(data)-1] ^= 1 // the end of the last tensor
	if got := fingerprint(write("llama-plain.gguf", data)); got == want {
		t.Error("another weight has the same fingerprint")
	}
	if fingerprint(tinyModel(t, "llama-linear")) == want {
		t.Error("another model has the same fingerprint")
	}
}
