package cuda

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheDriversVersionIsWhatTheSystemShows(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "CUDA 13.0"},
		{"something else\n", "CUDA 13.0"},
		{"NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Oct 27 06:30:00 UTC 2025\nGCC version:  gcc version 13.3.0\n", "CUDA 13.0, driver 580.159.04"},
		{"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95  Release Build\n", "CUDA 13.0, driver 580.95"},
	} {
		path := filepath.Join(t.TempDir(), "version")
		if c.file != "" {
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := driverText(13000, path); got != c.want {
			t.Errorf("%q: %q, want %q", c.file, got, c.want)
		}
	}
}
