package memra

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// refuse is an error if writing dst would replace a folder or a file that the source is read from: the source itself, a file of the
// set that it is a member of, or, where it is a folder, any file in it that is no GGUF file.
func refuse(source, dst string) error {
	there, err := os.Stat(dst)
	if err == nil && there.IsDir() {
		return fmt.Errorf("memra: %s: is a folder, want the name of the file to write, such as %s", dst, filepath.Join(dst, "model.gguf"))
	}
	if sameFile(source, filepath.Dir(dst)) && filepath.Ext(dst) != ".gguf" {
		return fmt.Errorf("memra: %s: lies in the model's folder, whose files are not to be replaced; want a name that ends in .gguf", dst)
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(source), "*.gguf"))
	for _, file := range append(files, source) {
		if (file == source || set(file) == set(filepath.Clean(source))) && sameFile(file, dst) {
			return fmt.Errorf("memra: %s: is a file of the source; name another", dst)
		}
	}
	return nil
}

var member = regexp.MustCompile(`-\d{5}(-of-\d{5}\.gguf)$`)

// set is the name that all members of a split set share.
func set(path string) string { return member.ReplaceAllString(path, "$1") }

// sameFile reports whether both paths lead to one file or folder that is there.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
