package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHistoryIsBounded(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	h := openHistory(log)
	for i := range 2*historyLines + 1 {
		h.Add(fmt.Sprint("line ", i))
	}
	h.Add("line 2000") // the same again
	h.Add(" ")
	h = openHistory(log)
	if h.Len() != historyLines || h.At(0) != "line 2000" || h.At(historyLines-1) != "line 1001" {
		t.Errorf("%d lines, from %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	data, err := os.ReadFile(h.path)
	if err != nil || strings.Count(string(data), "\n") != historyLines {
		t.Errorf("the file has %d lines: %v", strings.Count(string(data), "\n"), err)
	}
	if info, err := os.Stat(h.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(h.path), "*")); len(left) != 1 {
		t.Errorf("files left: %q", left)
	}
}

func TestHistoryThatCannotBeReadIsDoneWithout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	var warned strings.Builder
	h := openHistory(slog.New(slog.NewTextHandler(&warned, nil)))
	h.Add("kept in memory")
	if h.Len() != 1 || strings.Count(warned.String(), "level=WARN") != 1 {
		t.Errorf("%d entries, log %q", h.Len(), warned.String())
	}
}
