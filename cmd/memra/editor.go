package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// plainLines reads lines that no person types.
type plainLines struct{ r *bufio.Reader }

func newPlainLines(r io.Reader) plainLines { return plainLines{bufio.NewReader(r)} }

func (p plainLines) line(string) (string, error) {
	line, err := p.r.ReadString('\n')
	if err == io.EOF && line != "" {
		err = nil
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}

func (p plainLines) close() error { return nil }

// editor reads lines from a person: it edits them, keeps their history, and takes pasted lines as one message. The terminal is in
// raw mode while a line is read only, so that Ctrl-C is a key then and a signal at all other times.
type editor struct {
	in, out *os.File
	keys    *keys
	term    *term.Terminal
	history *history

	mu     sync.Mutex
	cooked *term.State // what to go back to; nil when the terminal is not in raw mode
}

func newEditor(in, out *os.File, h *history) *editor {
	e := &editor{in: in, out: out, keys: &keys{r: in}, history: h}
	e.renew()
	return e
}

// renew forgets the line that is being edited.
func (e *editor) renew() {
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, e.out}, "")
	e.term.History = e.history
}

func (e *editor) line(prompt string) (string, error) {
	if err := e.raw(); err != nil {
		return "", err
	}
	defer e.close()
	if width, height, err := term.GetSize(int(e.out.Fd())); err == nil && width > 0 {
		if err := e.term.SetSize(width, height); err != nil {
			return "", err
		}
	}
	e.term.SetPrompt(bold(e.out, prompt))
	var pasted []string
	for {
		line, err := e.term.ReadLine()
		switch err {
		case nil:
			return strings.Join(append(pasted, line), "\n"), nil
		case term.ErrPasteIndicator:
			pasted = append(pasted, line)
			continue
		}
		if err == io.EOF {
			e.renew() // it would read the key that ended it again
			_, _ = io.WriteString(e.out, "\r\n")
			if e.keys.interrupted {
				return "", errAbandoned
			}
		}
		return "", err
	}
}

// raw takes over the terminal.
func (e *editor) raw() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	state, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return err
	}
	e.cooked = state
	e.term.SetBracketedPasteMode(true)
	return nil
}

// close gives the terminal back as it was.
func (e *editor) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cooked == nil {
		return nil
	}
	e.term.SetBracketedPasteMode(false)
	err := term.Restore(int(e.in.Fd()), e.cooked)
	e.cooked = nil
	return err
}

// keys turns Ctrl-C, which the line editor takes for the end of input, into keys that clear a line and end an empty one: end of
// line, Ctrl-D (deletes what follows; nothing, unless the line is empty), delete to the beginning.
type keys struct {
	r           io.Reader
	pending     []byte
	interrupted bool // Ctrl-C was among the keys of the last read
}

const (
	ctrlC     = "\x03"
	clearLine = "\x05\x04\x15"
)

func (k *keys) Read(p []byte) (int, error) {
	if len(k.pending) == 0 {
		n, err := k.r.Read(p)
		if n == 0 {
			return 0, err
		}
		k.interrupted = bytes.Contains(p[:n], []byte(ctrlC))
		k.pending = bytes.ReplaceAll(p[:n], []byte(ctrlC), []byte(clearLine))
	}
	n := copy(p, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}
