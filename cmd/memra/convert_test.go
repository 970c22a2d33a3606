package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/internal/golden"
)

func TestConvertMakesAFileThatAnswersAsItsFolder(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "m.gguf")
	if err := golden.Folder("../../model/testdata/tiny/llama-plain.zip", folder); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "", "convert", folder, file); out != "" {
		t.Errorf("standard output %q, want nothing", out)
	}
	for _, args := range [][]string{
		{"run", "--raw", "-n", "8", "-m", "MODEL", "Then the thin"},
		{"tokenize", "-m", "MODEL", "Then <|end|> the thin"},
		{"score", "-m", "MODEL", "Then the thin"},
		{"inspect", "--no-tensors", "-o", "json", "MODEL"},
	} {
		of := func(model string) string {
			args := append([]string{}, args...)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "MODEL", model)
			}
			return succeed(t, "", args...)
		}
		fromFolder, fromFile := of(folder), of(file)
		if args[0] == "inspect" { // a file says its type beside
			fromFile = strings.Replace(fromFile, ",\n\"general.file_type\": 0,\n\"general.quantization_version\": 2", "", 1)
		}
		if fromFolder != fromFile || fromFile == "" {
			t.Errorf("%s: %q from the folder, %q from the file", args[0], fromFolder, fromFile)
		}
	}
}

func TestConvertRefusesWhatItCannotMean(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "q.gguf")
	if err := os.WriteFile(model, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   []string
	}{
		{"one name", []string{"convert", dir}, 2, []string{"1 arguments", "a folder and the file to write"}},
		{"a type that does not exist", []string{"convert", "--outtype", "q5", dir, "x"}, 2, []string{"--outtype", "auto, f32, f16 or bf16"}},
		{"a folder with a GGUF file", []string{"convert", dir, filepath.Join(dir, "x.gguf")}, 1, []string{dir, "config.json", "it has q.gguf, name that file"}},
		{"running such a folder", []string{"run", "-m", dir, "hi"}, 1, []string{dir, "config.json", "it has q.gguf, name that file"}},
	} {
		o := invoke(t, "", c.args...)
		if o.status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, o.status, c.status)
		}
		for _, want := range c.want {
			if !strings.Contains(o.err, want) {
				t.Errorf("%s: %q lacks %q", c.name, o.err, want)
			}
		}
	}
}
