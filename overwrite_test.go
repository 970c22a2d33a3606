package memra

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASourceIsNeverReplaced(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"m.gguf", "other.gguf", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf", "r-00002-of-00002.gguf"} {
		if err := os.WriteFile(at(name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("m.gguf"), at("link.gguf")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, source, dst, want string }{
		{"a new file", at("m.gguf"), at("new.gguf"), ""},
		{"another file", at("m.gguf"), at("other.gguf"), ""},
		{"the source", at("m.gguf"), at("m.gguf"), "is a file of the source"},
		{"the source by another name", at("m.gguf"), filepath.Join(dir, ".", "..", filepath.Base(dir), "m.gguf"), "is a file of the source"},
		{"a link to the source", at("m.gguf"), at("link.gguf"), "is a file of the source"},
		{"the source, opened by a link", at("link.gguf"), at("m.gguf"), "is a file of the source"},
		{"another file of the source's set", at("s-00001-of-00002.gguf"), at("s-00002-of-00002.gguf"), "is a file of the source"},
		{"a file of another set", at("s-00001-of-00002.gguf"), at("r-00002-of-00002.gguf"), ""},
		{"a folder", at("m.gguf"), folder, "is a folder"},
		{"a GGUF file in the source's folder", folder, filepath.Join(folder, "m.gguf"), ""},
		{"any other file there", folder, filepath.Join(folder, "model.safetensors"), "whose files are not to be replaced"},
	} {
		err := refuse(c.source, c.dst)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}
