package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what the commands share: where they read and write.
type app struct {
	in       io.Reader
	out, err io.Writer
	log      *slog.Logger // to err
}

// execute runs a command line and returns its exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, out: out, err: errs, log: slog.New(slog.DiscardHandler)}
	root := newRoot(a)
	root.SetArgs(rewrite(args))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	return a.report(root.ExecuteContext(ctx))
}

func newRoot(a *app) *cobra.Command {
	var verbose bool
	root := &cobra.Command{
		Use:   "memra",
		Short: "Run open-weight language models: same request, same bytes",
		Long: `memra runs open-weight language models (GGUF files) on this machine. One is built in: it completes Go code.

The same request gives the same bytes: what a model answers depends on the file, the kind of device, the prompt and the flags
that shape the answer, never on threads, on what else runs, or on how a prompt was cut into steps.`,
		Example: `  memra run 'func Reverse(s string) string {'
  memra run -m model.gguf 'What is the capital of France?'
  memra chat -m model.gguf
  memra bench -m model.gguf -p 512 -n 128`,
		Version: readBuild().Version,

		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			err := fmt.Errorf("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
			}
			return usageError{cmd, err}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			level := slog.LevelWarn
			if verbose {
				level = slog.LevelDebug
			}
			a.log = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
		},
	}
	root.PersistentFlags().BoolVarP(&verbose, "verbose", "v", false, "log what happens to standard error")
	root.SetVersionTemplate("memra {{.Version}}\n")
	root.SetGlobalNormalizationFunc(canonical)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cmd, plainer(err)} })
	root.AddCommand(newRun(a), newComplete(a), newChat(a), newInspect(a), newTokenize(a), newPerplexity(a), newScore(a), newBench(a), newCheck(a), newQuantize(a), newVersion(a))
	root.AddCommand(newConvert(a), newRender(a), newSplit(a), newMerge(a), newBatch(a))
	for _, cmd := range root.Commands() {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := check(cmd, args); err != nil {
					return usageError{cmd, err}
				}
				return nil
			}
		}
	}
	return root
}

// canonical gives flags the names that llama.cpp has for them beside ours.
func canonical(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "temp":
		name = "temperature"
	case "kv-type":
		name = "cache-type"
	case "n-predict":
		name = "predict"
	case "typical-p":
		name = "typical"
	case "top-n-sigma":
		name = "top-nsigma"
	case "model-draft":
		name = "draft"
	}
	return pflag.NormalizedName(name)
}

// rewrite turns llama.cpp's -ctk and -md, which are no flags of the getopt kind, into --cache-type and --draft.
func rewrite(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		switch arg {
		case "-ctk":
			args[i] = "--cache-type"
		case "-md":
			args[i] = "--draft"
		}
	}
	return args
}

// usageError is a command line that cannot be meant.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e usageError) Error() string {
	return fmt.Sprintf("%s: %v; see %s --help", strings.TrimPrefix(e.cmd.CommandPath(), "memra "), e.err, e.cmd.CommandPath())
}

func (e usageError) Unwrap() error { return e.err }

// usage is a usageError of a command.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return usageError{cmd, fmt.Errorf(format, args...)}
}

// report says what went wrong, once, and returns the exit status.
func (a *app) report(err error) int {
	var signalled signalError
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &signalled):
		return signalled.status()
	case errors.Is(err, syscall.EPIPE): // nobody reads on: no news to whoever closed the pipe
		return signalError{syscall.SIGPIPE}.status()
	}
	a.complain(err)
	if errors.As(err, &wrong) {
		return 2
	}
	return 1
}

// complain writes an error as a line of its own.
func (a *app) complain(err error) {
	fmt.Fprintf(a.err, "memra: %s\n", strings.TrimPrefix(err.Error(), "memra: "))
}
