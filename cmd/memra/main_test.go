package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
)

// TestMain lets the test binary be the program too: tests that need signals, pipes or a terminal start it again.
func TestMain(m *testing.M) {
	if os.Getenv("MEMRA_TEST_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is the program as a process of its own, with a home directory where nothing is.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "MEMRA_TEST_PROGRAM=1", "XDG_STATE_HOME="+t.TempDir(), "TERM=xterm")
	return cmd
}

// outcome is what a command line did.
type outcome struct {
	status   int
	out, err string
}

// invoke runs a command line in this process.
func invoke(t *testing.T, input string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	status := execute(t.Context(), args, strings.NewReader(input), &out, &errs)
	return outcome{status, out.String(), errs.String()}
}

// succeed runs a command line that must succeed and returns what it wrote to standard output.
func succeed(t *testing.T, input string, args ...string) string {
	t.Helper()
	o := invoke(t, input, args...)
	if o.status != 0 {
		t.Fatalf("memra %q: status %d: %s", args, o.status, o.err)
	}
	return o.out
}

// tiny is a tiny model and its goldens.
var tiny = sync.OnceValues(func() (*golden.Tiny, error) {
	return golden.LoadTiny("../../model/testdata/tiny/llama-plain")
})

func tinyGolden(t *testing.T) *golden.Tiny {
	t.Helper()
	g, err := tiny()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// baseModel writes the tiny model, which has no chat template, and returns its path.
func baseModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.gguf")
	if err := os.WriteFile(path, tinyGolden(t).GGUF, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// change writes the tiny model with other metadata and returns its path.
func change(t *testing.T, meta func(*gguf.Metadata)) string {
	t.Helper()
	f, err := gguf.Open(baseModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	meta(f.Meta)
	path := filepath.Join(t.TempDir(), "changed.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

// chatModel is the tiny model with a template that writes each message as "role:content;", and a longer context.
func chatModel(t *testing.T) string {
	t.Helper()
	return change(t, func(m *gguf.Metadata) {
		m.Set("tokenizer.chat_template", "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}>{% endif %}")
	})
}
