package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra"
)

func TestASplitModelRunsAndMergesToTheFileThatItWas(t *testing.T) {
	dir := t.TempDir()
	whole, merged := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "merged.gguf")
	succeed(t, "", "quantize", baseModel(t), whole, "Q8_0") // as memra writes files
	var split struct{ Files []memra.SplitFile }
	if err := json.Unmarshal([]byte(succeed(t, "", "split", whole, filepath.Join(dir, "m"), "--max-size", "20k", "-o", "json")), &split); err != nil {
		t.Fatal(err)
	}
	if len(split.Files) < 3 {
		t.Fatalf("found %v, want some files", split.Files)
	}
	answer := succeed(t, "", "run", "-m", whole, "-n", "8", "--raw", "hello")
	for _, f := range split.Files[:2] {
		if got := succeed(t, "", "run", "-m", f.Path, "-n", "8", "--raw", "hello"); got != answer {
			t.Errorf("%s answers %q, the whole file %q", f.Path, got, answer)
		}
	}
	succeed(t, "", "merge", split.Files[1].Path, merged)
	a, errA := os.ReadFile(whole)
	b, errB := os.ReadFile(merged)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("merged, the file has %d bytes (%v), before it was split %d (%v), want the same", len(b), errB, len(a), errA)
	}
}

func TestSplitSaysWhatItWouldDo(t *testing.T) {
	dir := t.TempDir()
	out := succeed(t, "", "split", baseModel(t), filepath.Join(dir, "m"), "--max-tensors", "10", "--dry-run")
	if !strings.Contains(out, "m-00001-of-0000") || !strings.Contains(out, "10 tensors") {
		t.Errorf("found %q, want files of 10 tensors", out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("found %v written, %v", left, err)
	}
}

func TestSplitAndMergeRefuse(t *testing.T) {
	dir := t.TempDir()
	prefix := filepath.Join(dir, "m")
	succeed(t, "", "split", baseModel(t), prefix, "--max-tensors", "10")
	files, err := filepath.Glob(prefix + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("found %v, %v", files, err)
	}
	last := files[len(files)-1]
	before := make([][]byte, len(files))
	for i, f := range files {
		before[i], _ = os.ReadFile(f)
	}
	for _, c := range []struct {
		name   string
		status int
		args   []string
		want   string
	}{
		{"one argument", 2, []string{"split", last}, "how the names of the set begin"},
		{"a size in words", 2, []string{"split", "--max-size", "big", last, prefix}, "such as 500M"},
		{"a negative number of tensors", 1, []string{"split", "--max-tensors", "-1", last, prefix}, "want positive numbers"},
		{"the source's own files as what it writes", 1, []string{"split", "--max-tensors", "10", last, prefix}, "is a file of the source"},
		{"merging into the set", 1, []string{"merge", files[0], last}, "is a file of the source"},
		{"merging into a folder", 1, []string{"merge", files[0], dir}, "is a folder"},
		{"merging what is not there", 1, []string{"merge", filepath.Join(dir, "none"), filepath.Join(dir, "x")}, "no such file"},
	} {
		o := invoke(t, "", c.args...)
		if o.status != c.status || !strings.Contains(o.err, c.want) || o.out != "" {
			t.Errorf("%s: found status %d, %q, want %d and %q", c.name, o.status, o.err, c.status, c.want)
		}
	}
	for i, f := range files {
		if after, err := os.ReadFile(f); err != nil || !slices.Equal(after, before[i]) {
			t.Errorf("%s was changed (%v)", f, err)
		}
	}
}

func TestSizesAreNumbersWithUnits(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "12": 12, "500M": 500e6, "4g": 4e9, "3K": 3000} {
		var s size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%q is %d, %v, want %d", text, s, err, want)
		}
		if again := s.String(); !strings.EqualFold(again, text) {
			t.Errorf("%q is written %q", text, again)
		}
	}
	for _, text := range []string{"", "M", "-1", "1.5G", "99999999999G"} {
		var s size
		if err := s.Set(text); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}
