//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"memra/gguf"
)

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// screen is a terminal with a program in it.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	mu   sync.Mutex
	text bytes.Buffer
	read int // how much of text has been waited for
}

func startOnTerminal(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	s := &screen{t: t, cmd: cmd, tty: tty}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := tty.Read(buffer)
			s.mu.Lock()
			s.text.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); tty.Close() })
	return s
}

// expect waits for a text that comes after those expected before.
func (s *screen) expect(text string) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		at := strings.Index(s.text.String()[s.read:], text)
		if at >= 0 {
			s.read += at + len(text)
		}
		s.mu.Unlock()
		if at >= 0 {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Fatalf("%q did not appear in %q", text, s.text.String()[s.read:])
}

func (s *screen) enter(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.tty, keys); err != nil {
		s.t.Fatal(err)
	}
}

// leaves waits for the program's end and returns its exit status.
func leaves(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil && exit.Sys().(syscall.WaitStatus).Signaled() {
			return -int(exit.Sys().(syscall.WaitStatus).Signal())
		}
		return cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Fatal("the program does not end")
		return 0
	}
}

const (
	ctrlD     = "\x04"
	enter     = "\r"
	pasteOn   = "\x1b[200~"
	pasteOff  = "\x1b[201~"
	bracketed = "\x1b[?2004h" // the program listens for pasted text: a prompt follows
)

// endless is a model that goes on for long: its template makes the context the only end.
func endless(t *testing.T) string {
	return change(t, func(m *gguf.Metadata) {
		m.Set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }};{% endfor %}")
		m.Set("llama.context_length", uint32(1<<20))
		for _, key := range []string{"eos", "eot", "eom"} {
			m.Set("tokenizer.ggml."+key+"_token_id", uint32(262))
		}
	})
}

func TestConversationOnATerminal(t *testing.T) {
	cmd := program(t, "chat", "-m", chatModel(t), "-n", "3", "--stats")
	s := startOnTerminal(t, cmd)
	s.expect("/help lists the commands")
	s.expect(bracketed)
	s.expect("> ")
	s.enter("Hi" + enter)
	s.expect("answer      3 tokens")
	s.expect("> ")
	s.enter("half a line" + ctrlC + "/system pasted" + enter) // Ctrl-C clears the line
	s.expect("(the system message is set)")
	s.enter(pasteOn + "one\rtwo" + pasteOff + enter) // one message
	s.expect("answer      3 tokens")
	s.enter(`"""` + enter)
	s.expect(". ")
	s.enter("given up" + enter)
	s.expect(". ")
	s.enter(ctrlC) // leaves the message, not the conversation
	s.expect("Ctrl-C again leaves")
	s.expect("> ")
	s.enter("/dance" + enter)
	s.expect("no command /dance")
	s.expect("> ")
	s.enter("\x1b[A" + enter) // up: the line before
	s.expect("no command /dance")
	s.expect("> ")
	s.enter(ctrlC) // once is not enough
	s.expect("Ctrl-C again leaves")
	s.expect("> ")
	s.enter("x" + ctrlC) // and this clears a line
	s.expect("x")
	s.enter(ctrlD)
	if status := leaves(t, cmd); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestCtrlCStopsAnAnswerAndThenLeaves(t *testing.T) {
	cmd := program(t, "chat", "-m", endless(t), "--stop", "never to be seen")
	s := startOnTerminal(t, cmd)
	s.expect("> ")
	s.enter("Hi" + enter)
	s.expect("\x1b[?2004l") // the line is read
	time.Sleep(100 * time.Millisecond)
	s.enter(ctrlC)
	s.expect(bracketed)
	s.enter("/regen" + enter) // a stopped answer can be given again
	s.expect("\x1b[?2004l")
	time.Sleep(100 * time.Millisecond)
	s.enter(ctrlC)
	s.expect(bracketed)
	s.enter(ctrlC)
	if status := leaves(t, cmd); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestHistoryIsKeptForItsOwner(t *testing.T) {
	model, state := chatModel(t), t.TempDir()
	for _, line := range []string{"first", "second"} {
		cmd := program(t, "chat", "-m", model, "-n", "1")
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state)
		s := startOnTerminal(t, cmd)
		s.expect("> ")
		s.enter(line + enter)
		s.expect(bracketed)
		s.enter(ctrlD)
		leaves(t, cmd)
	}
	path := filepath.Join(state, "memra", "history")
	if data, err := os.ReadFile(path); err != nil || string(data) != "first\nsecond\n" {
		t.Errorf("%q, %v", data, err)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", p, info.Mode().Perm(), err, want)
		}
	}
}

func TestNoColorIsHonoured(t *testing.T) {
	for _, plain := range []bool{false, true} {
		cmd := program(t, "inspect", "--no-tensors", baseModel(t))
		if plain {
			cmd.Env = append(cmd.Env, "NO_COLOR=1")
		}
		s := startOnTerminal(t, cmd)
		s.expect("general.architecture")
		leaves(t, cmd)
		s.mu.Lock()
		if got := strings.Contains(s.text.String(), "\x1b["); got == plain {
			t.Errorf("NO_COLOR %v: styled %v", plain, got)
		}
		s.mu.Unlock()
	}
}

func TestSignalEndsARunPromptly(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := program(t, "run", "-m", endless(t), "--raw", "Hi")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // partial text comes at once
			t.Fatal(err)
		}
		go io.Copy(io.Discard, out)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if status := leaves(t, cmd); status != 128+int(signal) || errs.Len() > 0 {
			t.Errorf("%v: status %d, standard error %q", signal, status, errs.String())
		}
	}
}

func TestSignalEndsTheWaitForAPrompt(t *testing.T) {
	cmd := program(t, "run", "-m", baseModel(t), "-")
	if _, err := cmd.StdinPipe(); err != nil { // nothing comes through it
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // before it listens, the signal ends it in another way
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := leaves(t, cmd); status != 130 && status != -int(syscall.SIGINT) {
		t.Errorf("status %d", status)
	}
}

func TestClosedPipeEndsARunQuietly(t *testing.T) {
	cmd := program(t, "run", "-m", endless(t), "--raw", "Hi")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if status := leaves(t, cmd); status != -int(syscall.SIGPIPE) || errs.Len() > 0 {
		t.Errorf("status %d, standard error %q", status, errs.String())
	}
}
