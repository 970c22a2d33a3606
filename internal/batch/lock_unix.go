//go:build linux || darwin || freebsd || netbsd || openbsd

package batch

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock keeps other runs from writing the file, until it is closed or this process ends, however it does.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.New("another run is writing it; wait for that, or write to another file")
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
		return nil // a file system without locks
	}
	return err
}
