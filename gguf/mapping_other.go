//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package gguf

import (
	"fmt"
	"io"
	"os"
)

// mapFile reads the file: this system has no mapping that we use.
func mapFile(file *os.File, size int) (*mapping, error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, fmt.Errorf("gguf: %s: reading %d bytes: %w", file.Name(), size, err)
	}
	return &mapping{data: data}, nil
}

// release does nothing: bytes that were read cannot be fetched again.
func (m *mapping) release(start, end int) {}

func (m *mapping) close() error {
	m.data = nil
	return nil
}
