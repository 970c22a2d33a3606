//go:build unix

package cpu

import "golang.org/x/sys/unix"

// mapAnonymous maps n > 0 zeroed bytes. They take room once they are written.
func mapAnonymous(n int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	hugePages(m)
	return m, nil
}

func unmap(m []byte) error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}
