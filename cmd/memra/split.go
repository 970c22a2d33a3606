package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"memra"
)

type splitCommand struct {
	*app
	options memra.SplitOptions
	size    size
	output  choice
}

func newSplit(a *app) *cobra.Command {
	c := &splitCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "split SRC.gguf PREFIX [flags]",
		Short: "Write a GGUF file as a set of smaller ones",
		Long: `Write a GGUF file as a set of smaller ones, PREFIX-00001-of-0000N.gguf and so on, as llama.cpp's llama-gguf-split does. Each of
them works as the name of the whole set; memra merge makes one file of them again.

A file ends before a tensor that would exceed --max-size or --max-tensors; a tensor that is larger has a file of its own. A file appears
whole or not at all, and replaces one that is there, but never a file of the source.`,
		Example: `  memra split model.gguf model
  memra split --max-size 500M model.gguf small/model
  memra split --max-tensors 128 --dry-run model.gguf model`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%d arguments, want a file and how the names of the set begin", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE:              interruptible(c.run),
	}
	c.size = 4e9
	flags := cmd.Flags()
	flags.Var(&c.size, "max-size", "bytes of tensors in a file: a number with K, M or G (thousands), or 0 for no limit")
	flags.IntVar(&c.options.MaxTensors, "max-tensors", 0, "tensors in a file (default no limit)")
	flags.BoolVar(&c.options.DryRun, "dry-run", false, "show what would be written, and write nothing")
	c.output.addOutput(cmd)
	return cmd
}

func (c *splitCommand) run(ctx context.Context, _ *cobra.Command, args []string) error {
	bar := c.bytesBar("split")
	c.options.MaxBytes, c.options.Progress = int(c.size), bar.set
	files, err := memra.Split(ctx, args[0], args[1], c.options)
	bar.finish()
	if err != nil {
		return err
	}
	if c.output.value == "json" {
		return writeJSON(c.out, struct {
			Files []memra.SplitFile `json:"files"`
		}{files})
	}
	w := bufio.NewWriter(c.out)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range files {
		fmt.Fprintf(t, "%s\t%d tensors\t%s\n", harmless(f.Path), f.Tensors, bytesText(f.Bytes))
	}
	t.Flush()
	return w.Flush()
}

func newMerge(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "merge SRC.gguf DST.gguf",
		Short: "Write a split set as one GGUF file",
		Long: `Write a split set as one GGUF file. SRC is any file of the set; the others lie beside it under their own names.

DST appears whole or not at all, and replaces a file that is there, but never a file of the set. Models run from their sets as well:
nothing needs to be merged first.`,
		Example: `  memra merge model-00001-of-00003.gguf model.gguf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%d arguments, want a file of the set and the file to write", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: interruptible(func(ctx context.Context, _ *cobra.Command, args []string) error {
			bar := a.bytesBar("merge")
			defer bar.finish()
			return memra.Merge(ctx, args[0], args[1], bar.set)
		}),
	}
}

// size is a flag that takes a number of bytes: "4G", "500M", "0".
type size int

func (s *size) Type() string { return "size" }

func (s *size) String() string {
	n, unit := int(*s), ""
	for _, u := range []string{"K", "M", "G"} {
		if n > 0 && n%1000 == 0 {
			n, unit = n/1000, u
		}
	}
	return strconv.Itoa(n) + unit
}

func (s *size) Set(text string) error {
	number, scale := text, 1
	for i, unit := range []string{"K", "M", "G"} {
		if n, ok := strings.CutSuffix(strings.ToUpper(text), unit); ok {
			number = n
			for range i + 1 {
				scale *= 1000
			}
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > (1<<62)/scale {
		return fmt.Errorf("want a number with K, M or G, such as 500M, or 0")
	}
	*s = size(n * scale)
	return nil
}
