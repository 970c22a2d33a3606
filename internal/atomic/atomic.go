// Package atomic writes files that appear whole or not at all.
package atomic

import (
	"io"
	"os"
	"path/filepath"
)

// Write makes the file at path of what encode writes, and replaces one that is there. After an error the folder is as it was.
func Write(path string, encode func(w io.Writer) error) error { return write(path, 0o644, encode) }

// WritePrivate does as Write. The file is for its owner alone.
func WritePrivate(path string, encode func(w io.Writer) error) error {
	return write(path, 0o600, encode)
}

func write(path string, mode os.FileMode, encode func(w io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if err = encode(tmp); err != nil {
		return err
	}
	if err = tmp.Chmod(mode); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
