package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/internal/bounded"
	"memra/internal/golden"
)

func TestConfigurationsOfCrumbsAreRefusedWithinBounds(t *testing.T) {
	var keys strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `"%x":0,`, i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"numbers", "[" + strings.Repeat("0,", maxJSON/2-2) + "0]", "more than 300000 values"},
		{"empty objects", "[" + strings.Repeat("{},", maxJSON/3-2) + "{}]", "more than 300000 values"},
		{"objects with a key", "[" + strings.Repeat(`{"":0},`, maxJSON/7-2) + "{}]", "more than 300000 values"},
		{"keys", "{" + keys.String() + `"x":0}`, "more than 300000 values"},
		{"brackets in brackets", strings.Repeat("[", maxJSON), "more than 32 deep"},
		{"a long text", `"` + strings.Repeat("x", maxJSON-2) + `"`, ""},
		{"a long number", strings.Repeat("1", maxJSON), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			bounded.Read(t, len(c.text), func() { _, err = parseJSON([]byte(c.text)) })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestFilesOfGigabytesAreRefusedUnread(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json", "special_tokens_map.json",
		"chat_template.jinja", "model.safetensors.index.json"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := golden.Folder("../model/testdata/tiny/llama-plain.zip", dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, 2<<30); err != nil { // a hole
				t.Fatal(err)
			}
			bounded.Read(t, 1<<20, func() {
				f, err := Open(dir)
				if err == nil {
					err = f.Vocabulary()
					f.Close()
				}
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "regular file") {
					t.Errorf("error %v, want one about the size of %s", err, path)
				}
			})
		})
	}
}
