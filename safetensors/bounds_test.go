package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/internal/bounded"
)

func TestAHeaderOfCrumbsIsRefusedWithinBounds(t *testing.T) {
	var tensors, texts, index strings.Builder
	for i := range 130_000 {
		fmt.Fprintf(&tensors, `"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
	}
	for i := range 560_000 {
		fmt.Fprintf(&texts, `"%x":"",`, i)
		if i < 450_000 {
			fmt.Fprintf(&index, `"%x":"a.safetensors",`, i)
		}
	}
	path := filepath.Join(t.TempDir(), indexName)
	all := `{"weight_map":{` + index.String() + `"x":"a.safetensors"}}`
	if err := os.WriteFile(path, []byte(all), 0o644); err != nil {
		t.Fatal(err)
	}
	header := func(text string) (int, func() error) {
		file := raw(text, 0)
		return len(file), func() error { _, err := readHeader("f", file); return err }
	}
	for _, c := range []struct {
		name string
		make func() (size int, read func() error)
	}{
		{"tensors", func() (int, func() error) { return header("{" + tensors.String() + `"x":{}}`) }},
		{"metadata", func() (int, func() error) { return header(`{"__metadata__":{` + texts.String() + `"x":""}}`) }},
		{"an index", func() (int, func() error) {
			return len(all), func() error { _, err := readIndex(path); return err }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			size, read := c.make()
			var err error
			bounded.Read(t, size, func() { err = read() })
			if err == nil || !strings.Contains(err.Error(), "takes more memory") {
				t.Errorf("error %v, want one about memory", err)
			}
		})
	}
}
