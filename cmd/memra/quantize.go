package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"memra"
)

type quantizeCommand struct {
	*app
	options memra.QuantizeOptions
	output  choice
}

func newQuantize(a *app) *cobra.Command {
	c := &quantizeCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "quantize SRC DST TYPE [flags]",
		Short: "Write a model file again with smaller numbers",
		Long: fmt.Sprintf(`Write a model file, or a Hugging Face folder, as a GGUF file with smaller numbers. TYPE is one of llama.cpp's names, in any case; each matrix gets the format that
llama-quantize gives it:

  %s

DST appears whole or not at all. It may be there, and is replaced, but never a file of the source. Matrices that are quantised
already lose quality twice, and are refused without --allow-requantize. --tensor-type takes a regular expression for a part of a
tensor's name; the first that matches counts. --imatrix takes a file of llama-imatrix.`, wrapped(memra.QuantizeTypes())),
		Example: `  memra quantize model-bf16.gguf model-q4.gguf Q4_K_M
  memra quantize SmolLM2-135M-Instruct smollm2-q8.gguf Q8_0
  memra quantize model-f32.gguf small.gguf Q3_K_M --imatrix model.imatrix
  memra quantize model-bf16.gguf model.gguf Q4_K_S --tensor-type attn_v=q8_0 --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 3 {
				return fmt.Errorf("%d arguments, want a source, a file to write, and a type", len(args))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 2 {
				return memra.QuantizeTypes(), cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: interruptible(c.run),
	}
	flags := cmd.Flags()
	flags.StringVar(&c.options.Importance, "imatrix", "", "file that says how much each column matters")
	flags.BoolVar(&c.options.Pure, "pure", false, "give all matrices one format")
	flags.StringArrayVar(&c.options.Tensors, "tensor-type", nil, "NAME=TYPE: the format of matrices whose names match; may be repeated")
	flags.BoolVar(&c.options.Requantize, "allow-requantize", false, "also read matrices that are quantised already")
	flags.BoolVar(&c.options.DryRun, "dry-run", false, "show what would be written, and write nothing")
	flags.IntVarP(&c.options.Threads, "threads", "t", 0, "threads that encode; the bytes do not depend on it (default one a processor)")
	c.output.addOutput(cmd)
	return cmd
}

// wrapped is words in lines that fit a terminal.
func wrapped(words []string) string {
	half := (len(words) + 1) / 2
	return strings.Join(words[:half], " ") + "\n  " + strings.Join(words[half:], " ")
}

func (c *quantizeCommand) run(ctx context.Context, _ *cobra.Command, args []string) error {
	c.options.Type = args[2]
	bar := c.valuesBar("quantize")
	c.options.Progress = bar.set
	result, err := memra.Quantize(ctx, args[0], args[1], c.options)
	bar.finish()
	if err != nil {
		return err
	}
	if c.output.value == "json" {
		return writeJSON(c.out, result)
	}
	w := bufio.NewWriter(c.out)
	if c.options.DryRun {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, tensor := range result.Tensors {
			to := "as it is"
			if tensor.Type != tensor.From {
				to = "to " + tensor.Type
			}
			if tensor.Wanted != "" {
				to += ", for " + tensor.Wanted + " does not fit"
			}
			fmt.Fprintf(t, "%s\t%v\t%s\t%s\n", harmless(tensor.Name), tensor.Shape, tensor.From, to)
		}
		t.Flush()
	}
	fmt.Fprintf(w, "%s: %s from %s, %.2f bits a value: %s\n", harmless(args[1]), bytesText(result.Bytes), bytesText(result.FromBytes),
		8*float64(result.Bytes)/float64(max(1, result.Values)), written(result.Tensors))
	return w.Flush()
}

// written counts the tensors of each type, and those whose rows the type of the rules does not fit.
func written(tensors []memra.QuantizedTensor) string {
	var types []memra.TensorInfo
	unfit := 0
	for _, t := range tensors {
		types = append(types, memra.TensorInfo{Type: t.Type})
		if t.Wanted != "" {
			unfit++
		}
	}
	text := formats(types)
	if unfit > 0 {
		text += fmt.Sprintf(" (%d of another type than the rules say, whose blocks do not fit their rows)", unfit)
	}
	return text
}
