package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"memra"
)

func newTokenize(a *app) *cobra.Command {
	var model modelFlags
	var plain bool
	output := choices("text", "json")
	cmd := &cobra.Command{
		Use:   "tokenize [-m MODEL] [flags] [TEXT|-]",
		Short: "Show the tokens of a text: ids and pieces",
		Long: `Show the tokens of a text: ids and pieces.

The text is read as a prompt is: the model's start token comes first if it wants one, and the text of a special token stands for
that token. --no-special reads it as nothing but text. Only the tokenizer is loaded: MODEL may be a GGUF file with nothing but a
vocabulary, or a folder with tokenizer.json. Bytes that are not UTF-8 have tokens too.`,
		Example: `  memra tokenize -m model.gguf 'Hello, world'
  memra tokenize -m model.gguf --no-special -o json - < file.txt`,
		Args: oneText,
		RunE: interruptible(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			text, err := a.text(ctx, cmd, args, "", "text")
			if err != nil {
				return err
			}
			model.choose(a)
			t, err := memra.OpenTokenizer(model.path)
			if err != nil {
				return err
			}
			return writeTokens(a, t, encode(t, text, plain), output.value)
		}),
	}
	model.addPath(cmd)
	addNoSpecial(cmd, &plain)
	output.addOutput(cmd)
	return cmd
}

func addNoSpecial(cmd *cobra.Command, plain *bool) {
	cmd.Flags().BoolVar(plain, "no-special", false, "add no start or end token, and read the text of special tokens as plain text")
}

func encode(t *memra.Tokenizer, text string, plain bool) []int32 {
	if plain {
		return t.TokenizePlain(text)
	}
	return t.Tokenize(text)
}

func writeTokens(a *app, t *memra.Tokenizer, ids []int32, format string) error {
	if format == "json" {
		result := struct {
			IDs    []int32  `json:"ids"`
			Pieces []string `json:"pieces"` // bytes that are not UTF-8 are U+FFFD
		}{ids, make([]string, len(ids))}
		for i, id := range ids {
			result.Pieces[i] = string(t.Piece(id))
		}
		return writeJSON(a.out, result)
	}
	w := bufio.NewWriter(a.out)
	for _, id := range ids {
		fmt.Fprintf(w, "%7d  %q\n", id, t.Piece(id))
	}
	return w.Flush()
}
