//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package mapped

import (
	"fmt"
	"io"
	"os"
)

// open reads the file: this system has no mapping that we use.
func open(file *os.File, size int) (*File, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, fmt.Errorf("%s: reading %d bytes: %w", file.Name(), size, err)
	}
	return &File{Data: data}, nil
}

// Release does nothing: bytes that were read cannot be fetched again.
func (f *File) Release(start, end int) {}

// Close forgets the bytes.
func (f *File) Close() error {
	f.Data = nil
	return nil
}
