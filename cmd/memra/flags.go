package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"memra"
	"memra/internal/devices"
	"memra/sample"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string // the first is the default
}

func choices(words ...string) choice { return choice{words[0], words} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.words, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		last := len(c.words) - 1
		return fmt.Errorf("want %s or %s", strings.Join(c.words[:last], ", "), c.words[last])
	}
	c.value = s
	return nil
}

// complete offers the words of a choice to the shell.
func (c *choice) complete(cmd *cobra.Command, flag string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for registrations that fail only if the program names a flag that it does not have.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// addOutput adds -o.
func (c *choice) addOutput(cmd *cobra.Command) {
	cmd.Flags().VarP(c, "output", "o", "how the result is written")
	c.complete(cmd, "output")
}

// deviceName is a flag that names what computes.
type deviceName string

func (d *deviceName) String() string { return string(*d) }
func (d *deviceName) Type() string   { return "name" }

func (d *deviceName) Set(name string) error {
	if err := devices.Check(name); err != nil {
		return errors.New("want auto, cpu, cuda or cuda:N")
	}
	*d = deviceName(name)
	return nil
}

// add adds --device.
func (d *deviceName) add(cmd *cobra.Command) {
	*d = "auto"
	cmd.Flags().Var(d, "device", "what computes: cpu, cuda (the first GPU) or cuda:N; auto is a GPU where one works")
	must(cmd.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(devices.Names(), cobra.ShellCompDirectiveNoFileComp)))
}

// modelFlags say which model a command opens, and how.
type modelFlags struct {
	path    string
	device  deviceName
	threads int
	context int
	cache   choice
	memory  size
	drafts  draftFlags
	prefix  prefixFlags
}

// draftFlags say what guesses tokens ahead: nothing in a command that does not add them.
type draftFlags struct {
	kind string
	most int
}

// add adds --draft and --draft-max.
func (f *draftFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kind, "draft", memra.DraftAuto, "what guesses tokens ahead, so that several are computed at once: auto, mtp (a layer of the model's), lookup (the text itself), off, or a smaller model's file; the output does not depend on it")
	cmd.Flags().IntVar(&f.most, "draft-max", memra.DefaultDraftMax, "most tokens guessed ahead")
	must(cmd.RegisterFlagCompletionFunc("draft", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{memra.DraftAuto, memra.DraftMTP, memra.DraftLookup, memra.DraftOff}, cobra.ShellCompDirectiveDefault // and files
	}))
}

// prefixFlags say what is kept of prompts and answers for prompts that begin alike.
type prefixFlags struct {
	off  bool
	dir  string
	disk size
}

// add adds --no-prefix-cache, --cache-dir and --cache-disk.
func (f *prefixFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.off, "no-prefix-cache", false, "compute every prompt from its first token, and not from where it goes on otherwise than those before; the output is the same")
	cmd.Flags().StringVar(&f.dir, "cache-dir", "", "folder where what has been computed of prompts and answers is kept for the next time; it tells as much as they do")
	cmd.Flags().Var(&f.disk, "cache-disk", "most bytes in --cache-dir: a number with K, M or G (thousands) (default 10G)")
	must(cmd.MarkFlagDirname("cache-dir"))
}

// addPath adds -m alone.
func (f *modelFlags) addPath(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "model", "m", "", "model file: GGUF, any member of a split set, or a Hugging Face folder; builtin is the one in this program")
	must(cmd.MarkFlagFilename("model", "gguf"))
}

// add adds the flags of a command that computes; contextUsage says what -c is to it.
func (f *modelFlags) add(cmd *cobra.Command, context int, contextUsage string) {
	f.addPath(cmd)
	f.device.add(cmd)
	cmd.Flags().IntVarP(&f.threads, "threads", "t", 0, "threads of the CPU that compute; the output does not depend on them (default one a processor)")
	cmd.Flags().IntVarP(&f.context, "ctx-size", "c", context, contextUsage)
	f.addCache(cmd)
}

func (f *modelFlags) addCache(cmd *cobra.Command) {
	f.cache = choices("f16", "q8_0", "fp8", "f32")
	cmd.Flags().Var(&f.cache, "cache-type", "format of the KV cache; also --kv-type and -ctk")
	f.cache.complete(cmd, "cache-type")
}

// addMemory adds the flag of commands that serve many requests.
func (f *modelFlags) addMemory(cmd *cobra.Command) {
	cmd.Flags().Var(&f.memory, "kv-memory", "bytes of the KV cache, which all requests share: a number with K, M or G (thousands); 0: a context for each, or as much of that as fits")
}

// contextUsage is what -c is to commands that generate.
const contextUsage = "most tokens of prompt and answer together (default what the model was made for)"

// choose takes the built-in model where no -m is given, and says so.
func (f *modelFlags) choose(a *app) {
	if f.path == "" {
		f.path = memra.Builtin
		fmt.Fprintln(a.err, "memra: no -m: this is the built-in model, which completes Go code; -m FILE takes another")
	}
}

// options are the flags, for so many sequences.
func (f *modelFlags) options(a *app, sequences int) memra.Options {
	return memra.Options{Device: string(f.device), Threads: f.threads, Context: f.context, Sequences: sequences, KVFormat: f.cache.value, KVMemory: int(f.memory),
		Draft: cmp.Or(f.drafts.kind, memra.DraftOff), DraftMax: f.drafts.most,
		NoPrefixCache: f.prefix.off, CacheDir: f.prefix.dir, CacheDisk: int(f.prefix.disk), Log: a.log}
}

// open opens the model, for one sequence at a time.
func (f *modelFlags) open(ctx context.Context, a *app) (*memra.Model, error) {
	f.choose(a)
	began := time.Now()
	m, err := await(ctx, func() (*memra.Model, error) {
		return memra.Open(f.path, f.options(a, 1))
	})
	if err != nil {
		return nil, err
	}
	a.log.Debug("model opened", "file", f.path, "family", m.Family(), "device", m.Device(), "context", m.Context(),
		"kv", f.cache.value, "template", m.HasTemplate(), "seconds", time.Since(began).Seconds())
	return m, nil
}

// requestFlags say how an answer is drawn and where it ends.
type requestFlags struct {
	samplingFlags
	predict int
	stop    []string
	after   []string
}

// add adds the flags; predict is what -n is unless given.
func (f *requestFlags) add(cmd *cobra.Command, predict int) {
	f.samplingFlags.add(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&f.predict, "predict", "n", predict, "most tokens of an answer; -1: until the model ends it or the context is full")
	flags.StringArrayVar(&f.stop, "stop", nil, "text that ends the answer and is not part of it; may be repeated")
	flags.StringArrayVar(&f.after, "stop-after", nil, "text that ends the answer and is the last of it; may be repeated")
}

// request is the flags as a request without a prompt.
func (f *requestFlags) request(cmd *cobra.Command) (memra.Request, error) {
	r := memra.Request{Stop: f.stop, StopAfter: f.after, Breakers: f.texts(), MaxTokens: max(0, f.predict)}
	if f.predict == 0 || f.predict < -1 {
		return r, usage(cmd, "-n is %d, want 1 or more, or -1 for no limit", f.predict)
	}
	var err error
	if r.Sampling, err = f.sampling(); err != nil {
		return r, usageError{cmd, err}
	}
	if _, err := sample.NewStopper(slices.Concat(f.stop, f.after)...); err != nil {
		return r, usageError{cmd, err}
	}
	return r, nil
}
