package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"memra"
)

type convertCommand struct {
	*app
	to choice
}

func newConvert(a *app) *cobra.Command {
	c := &convertCommand{app: a, to: choices("auto", "f32", "f16", "bf16")}
	cmd := &cobra.Command{
		Use:   "convert FOLDER DST.gguf [flags]",
		Short: "Write a Hugging Face model folder as a GGUF file",
		Long: `Write a Hugging Face model folder (config.json, *.safetensors, tokenizer files) as one GGUF file, with the names, layouts and
keys of llama.cpp.

Nothing is lost unless --outtype says so: matrices stay the F32, F16 or BF16 that they are, MXFP4 and NVFP4 keep their blocks, FP8
and INT8 become BF16 where their scales are powers of two, else F32. DST appears whole or not at all, and replaces a file that is
there. The folder itself runs as well: every command that takes a model file takes a folder.`,
		Example: `  memra convert SmolLM2-135M-Instruct smollm2.gguf
  memra convert --outtype f16 Llama-3.2-1B-Instruct llama.gguf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("%d arguments, want a folder and the file to write", len(args))
			}
			return nil
		},
		RunE: interruptible(c.run),
	}
	cmd.Flags().Var(&c.to, "outtype", "format of matrices that are floats; auto keeps each")
	c.to.complete(cmd, "outtype")
	return cmd
}

func (c *convertCommand) run(ctx context.Context, _ *cobra.Command, args []string) error {
	bar := c.bytesBar("convert")
	defer bar.finish()
	return memra.Convert(ctx, args[0], args[1], memra.ConvertOptions{Type: c.to.value, Progress: bar.set})
}
