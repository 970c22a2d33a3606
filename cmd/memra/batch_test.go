package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// requests writes a file of n requests and returns its path.
func requests(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, `{"custom_id":"r%d","method":"POST","url":"/v1/completions","body":{"prompt":"Then %d","max_tokens":9,"seed":%d,"logprobs":2}}`, i, i, i)
		case 1:
			fmt.Fprintf(&b, `{"prompt":"The sea %d","max_tokens":%d}`, i, 1+i%30)
		case 2:
			fmt.Fprintf(&b, `{"custom_id":"r%d","messages":[{"role":"user","content":"Hi %d"}],"max_tokens":5,"n":2}`, i, i)
		case 3:
			fmt.Fprintf(&b, `{"custom_id":"r%d","prompt":"x","seed":-%d}`, i, i)
		}
		b.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// timeless is a file of answers without the times at which they were made, and what a cache had by then.
func timeless(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`"(created|cached_tokens)":\d+`).ReplaceAllString(string(text), `"$1":0`)
}

func TestABatchIsTheSameHoweverManyAreAnsweredAtATime(t *testing.T) {
	model, in := chatModel(t), requests(t, 40)
	want := ""
	for _, parallel := range []string{"1", "3", "32"} {
		out := filepath.Join(t.TempDir(), "out.jsonl")
		o := invoke(t, "", "batch", "-m", model, "-i", in, "-o", out, "--parallel", parallel, "-c", "64")
		if o.status != 0 || o.out != "" || !strings.Contains(o.err, "30 answers, 10 refusals") {
			t.Fatalf("status %d, output %q, %q", o.status, o.out, o.err)
		}
		got := timeless(t, out)
		if n := strings.Count(got, "\n"); n != 40 {
			t.Fatalf("%d lines of answers, want 40", n)
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("with %s at a time the answers differ", parallel)
		}
	}
}

func TestABatchGoesThroughStandardStreams(t *testing.T) {
	out := succeed(t, `{"custom_id":"a","prompt":"Hi","max_tokens":2}`, "batch", "-m", baseModel(t), "-i", "-", "-o", "-")
	if !strings.Contains(out, `"custom_id":"a"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("output %q, want a line", out)
	}
}

func TestAKilledBatchGoesOnWhereItStopped(t *testing.T) {
	model, in := chatModel(t), requests(t, 400)
	whole, out := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "out")
	succeed(t, "", "batch", "-m", model, "-i", in, "-o", whole, "-c", "64")
	want := timeless(t, whole)
	for _, signal := range []os.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		cmd := program(t, "batch", "-m", model, "-i", in, "-o", out, "-c", "64")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := bytesOf(out)
		for bytesOf(out) < before+1000 {
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if signal == syscall.SIGINT && status.ExitStatus() != 130 {
			t.Errorf("status %v after Ctrl-C, want 130", status.ExitStatus())
		}
		if got := timeless(t, out); !strings.HasPrefix(want, got) && signal != syscall.SIGKILL {
			t.Fatalf("after %v the file is not the beginning of the whole", signal)
		}
	}
	// Half a line, as a kill in the middle of a write leaves it.
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, text[:len(text)-25], 0o600); err != nil {
		t.Fatal(err)
	}
	done := bytes.Count(text[:len(text)-25], []byte("\n"))
	o := invoke(t, "", "batch", "-m", model, "-i", in, "-o", out, "-c", "64")
	if o.status != 0 || !strings.Contains(o.err, fmt.Sprintf("has %d answers already", done)) {
		t.Fatalf("status %d, %s", o.status, o.err)
	}
	if timeless(t, out) != want {
		t.Error("the answers differ from those of a batch that was not killed")
	}
}

func bytesOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func TestABatchTouchesNoFileThatIsNotItsOwn(t *testing.T) {
	model, in := chatModel(t), requests(t, 4)
	out := filepath.Join(t.TempDir(), "out")
	succeed(t, "", "batch", "-m", model, "-i", in, "-o", out, "-c", "64")
	before := timeless(t, out)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-m", model, "-i", in, "-o", in}, "line 1 is no answer of a batch"},
		{[]string{"-m", model, "-i", in, "-o", out, "-c", "64", "--temperature", "0.5"}, "another model, or with other flags"},
		{[]string{"-m", baseModel(t), "-i", in, "-o", out, "-c", "64"}, "another model, or with other flags"},
		{[]string{"-m", model, "-i", requests(t, 3), "-o", out, "-c", "64"}, "line 4 answers nothing"},
		{[]string{"-m", model, "-i", t.TempDir(), "-o", out}, "a folder"},
		{[]string{"-m", model, "-i", "nosuch.jsonl", "-o", out}, "nosuch.jsonl"},
		{[]string{"-m", model, "-i", in, "-o", filepath.Join(out, "x")}, "the answers"},
	} {
		if o := invoke(t, "", append([]string{"batch"}, c.args...)...); o.status != 1 || !strings.Contains(o.err, c.want) {
			t.Errorf("%v: status %d, %q, want one with %q", c.args, o.status, o.err, c.want)
		}
	}
	if timeless(t, out) != before {
		t.Error("the answers were changed")
	}
	if got, _ := os.ReadFile(in); !bytes.HasPrefix(got, []byte(`{"custom_id":"r0"`)) {
		t.Error("the requests were changed")
	}
}

// The requests are what OpenAI's client sends, and it reads the answers; tools/oracle/openai_client.py says how strictly.
func TestTheRealClientReadsTheAnswers(t *testing.T) {
	python := os.Getenv("MEMRA_OPENAI")
	if python == "" {
		t.Skip("MEMRA_OPENAI does not name a Python that has openai")
	}
	const script = "../../tools/oracle/openai_client.py"
	sent, err := exec.Command(python, script, "requests").Output()
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(t.TempDir(), "in.jsonl"), filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(in, sent, 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, "", "batch", "-m", chatModel(t), "-i", in, "-o", out)
	said, err := exec.Command(python, script, "check", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	t.Logf("%s", said)
}
