//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package gguf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(file *os.File, size int) (*mapping, error) {
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("gguf: %s: mapping %d bytes: %w", file.Name(), size, err)
	}
	return &mapping{data: data}, nil
}

// release drops the pages that lie wholly within data[start:end]; neighbours on shared pages may still be in use.
func (m *mapping) release(start, end int) {
	page := os.Getpagesize()
	start = (start + page - 1) / page * page
	if end >= len(m.data) {
		end = len(m.data) // 0 once closed
	} else {
		end = end / page * page
	}
	if start < end {
		// Advice only: if the system does not take it, the pages stay until it needs them.
		_ = unix.Madvise(m.data[start:end], unix.MADV_DONTNEED)
	}
}

func (m *mapping) close() error {
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}
