package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"memra"
)

// tourPrompt is what the tour completes.
const tourPrompt = "func Reverse(s string) string {"

// tour shows what memra does with nothing but this program: it completes a function, says how fast, and names what to try next.
func (c *runCommand) tour(ctx context.Context, cmd *cobra.Command, r memra.Request) error {
	c.model.path = memra.Builtin
	began := time.Now()
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return err
	}
	defer m.Close()
	r.Prompt, r.Heal = tourPrompt, true
	endWithDeclaration(cmd, &r, tourPrompt)
	facts := m.Facts()
	_, err = fmt.Fprintf(c.out, `memra runs language models on this machine. One is built in: it completes Go code
(%s parameters, %s of %s; on %s).

%s

%s`, countText(facts.Parameters), bytesText(facts.Bytes), facts.Format, m.Device(), bold(c.out, "$ memra run '"+tourPrompt+"'"), tourPrompt)
	if err != nil {
		return err
	}
	done, first, err := c.stream(ctx, m, r, began)
	if err != nil {
		return err
	}
	if !isTerminal(c.out) {
		fmt.Fprintln(c.out)
	}
	_, err = fmt.Fprintf(c.out, `
%d tokens at %.0f tokens/s; the first came after %.0f ms, with opening the model. The same command gives the same bytes,
on however many threads, whatever else runs.

%s
  memra run '// Fibonacci returns the n-th number.'   complete something else
  memra complete FILE.go:LINE                         fill in the middle of a file
  memra inspect -m builtin                            what this model is: its data, its figures, its licence
  memra bench -m builtin                              how fast this machine is
  memra run -m model.gguf 'Who are you?'              any GGUF file or Hugging Face folder; memra chat converses
  memra --help                                        all the rest
`, done.Tokens, rate(done.Tokens-1, done.Decode), float64(first.Microseconds())/1000, bold(c.out, "Next:"))
	return err
}
