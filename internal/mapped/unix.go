//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package mapped

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func open(file *os.File, size int) (*File, error) {
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: mapping %d bytes: %w", file.Name(), size, err)
	}
	return &File{Data: data}, nil
}

// Release tells the system that the pages wholly within Data[start:end] are not needed for now: neighbours on shared pages may
// still be in use. The data stays readable; its next use reads the file again.
func (f *File) Release(start, end int) {
	page := os.Getpagesize()
	start = (start + page - 1) / page * page
	if end >= len(f.Data) {
		end = len(f.Data) // 0 once closed
	} else {
		end = end / page * page
	}
	if start < end {
		// Advice only: if the system does not take it, the pages stay until it needs them.
		_ = unix.Madvise(f.Data[start:end], unix.MADV_DONTNEED)
	}
}

// Close unmaps the file: slices taken of Data must not be touched any more.
func (f *File) Close() error {
	data := f.Data
	if f.Data = nil; data == nil {
		return nil
	}
	return unix.Munmap(data)
}
