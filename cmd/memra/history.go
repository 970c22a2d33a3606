package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// history is the lines that a person entered, in this conversation and before. It implements term.History.
//
// The file holds what people tell a model, so nobody else may read it. A line is appended as it is entered: conversations that run
// at once do not lose each other's. What cannot be read or written is logged and does not stop a conversation.
type history struct {
	path    string
	entries []string // oldest first
	log     *slog.Logger
}

// historyLines is how many lines are kept; the file may grow to twice as many before it is cut.
const historyLines = 1000

func openHistory(log *slog.Logger) *history {
	h := &history{log: log}
	dir, err := stateDir()
	if err == nil {
		h.path = filepath.Join(dir, "history")
		err = h.read()
	}
	if err != nil {
		log.Warn("the history of earlier conversations is not used", "error", err)
		h.path = ""
	}
	return h
}

// stateDir is where the XDG specification wants a program's state.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "memra"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "memra"), err
}

func (h *history) read() error {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	data, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	h.entries = strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
	if n := len(h.entries); n > historyLines {
		h.entries = slices.Clone(h.entries[n-historyLines:])
		if n > 2*historyLines {
			return h.rewrite()
		}
	}
	return nil
}

// rewrite replaces the file by a shorter one, whole or not at all.
func (h *history) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.path), "history-*") // for its owner only
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(h.entries, "\n") + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Add keeps a line, unless it is empty or the one before it again.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == line {
		return
	}
	h.entries = append(h.entries, line)
	if h.path == "" {
		return
	}
	if err := appendLine(h.path, line); err != nil {
		h.log.Warn("the history is not kept", "error", err)
		h.path = ""
	}
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func (h *history) Len() int { return len(h.entries) }

// At returns the line entered so many lines before the last.
func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }
