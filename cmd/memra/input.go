package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// text is what a command works on: its argument, standard input for "-", or a file where the command has -f. what names it in
// messages.
func (a *app) text(ctx context.Context, cmd *cobra.Command, args []string, file, what string) (string, error) {
	switch {
	case file != "" && len(args) > 0:
		return "", usage(cmd, "both a %s and -f are given, want one", what)
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return string(data), nil
	case len(args) == 0:
		return "", usage(cmd, "no %s is given; give it as an argument, or - to read standard input", what)
	case args[0] == "-":
		data, err := await(ctx, func() ([]byte, error) { return io.ReadAll(a.in) })
		if err != nil {
			return "", fmt.Errorf("%s: standard input: %w", what, err)
		}
		return string(data), nil
	}
	return args[0], nil
}

// piped reports whether something is fed to standard input: a pipe or a file, but no terminal and no /dev/null.
func (a *app) piped() bool {
	f, ok := a.in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular())
}

// oneText allows at most one argument, and says how a text of several words is given.
func oneText(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("%d arguments, want one; put quotes around a text of several words", len(args))
	}
	return nil
}

// checkUTF8 refuses a text that is not UTF-8, with the place.
func checkUTF8(text, what string) error {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Errorf("the %s is not UTF-8: byte %d is 0x%02x; convert it first", what, i, text[i])
		}
		i += n
	}
	return nil
}
