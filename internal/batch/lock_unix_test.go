//go:build linux || darwin || freebsd || netbsd || openbsd

package batch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTwoRunsDoNotWriteOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	j := echo("k")
	resume := func(f *os.File) error {
		_, err := j.Resume(NewReader(strings.NewReader(lines(3)), j.Key), f)
		return err
	}
	first := open()
	if err := resume(first); err != nil {
		t.Fatal(err)
	}
	if err := resume(open()); err == nil || !strings.Contains(err.Error(), "another run is writing it") {
		t.Errorf("while another run writes: %v", err)
	}
	first.Close()
	if err := resume(open()); err != nil {
		t.Errorf("when the other has ended: %v", err)
	}
}
