package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"memra"
)

type scoreCommand struct {
	*app
	model  modelFlags
	tokens numbers
	plain  bool
	top    int
	output choice
}

func newScore(a *app) *cobra.Command {
	c := &scoreCommand{app: a, output: choices("json", "text")}
	cmd := &cobra.Command{
		Use:   "score [-m MODEL] [flags] [--tokens IDS | TEXT|-]",
		Short: "The log-probability of every token given those before it",
		Long: `The log-probability (natural logarithm) of every token given those before it, as evaluation harnesses need it.

The result is one JSON object: {"tokens":[{"id":..,"logprob":..,"top":[{"id":..,"logprob":..}]}],"sum":..}. The first token follows
nothing, so its logprob is null and not in the sum. Numbers are exact: read as 32-bit or 64-bit floats they are the very values
that generating the same tokens gives, bit for bit.

A text is read as a prompt is: with the model's start token if it wants one, and with special tokens' texts as those tokens.`,
		Example: `  memra score -m model.gguf 'The capital of France is Paris.'
  memra score -m model.gguf --tokens 504,3575,282 --top 5
  memra score -m model.gguf -o text - < file.txt`,
		Args: oneText,
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 0, "most tokens (default what the model was made for)")
	c.tokens.most = math.MaxInt32
	cmd.Flags().Var(&c.tokens, "tokens", "score these token ids instead of a text; nothing is added")
	cmd.Flags().IntVar(&c.top, "top", 0, "show as many of the likeliest tokens at each place")
	addNoSpecial(cmd, &c.plain)
	c.output.addOutput(cmd)
	return cmd
}

func (c *scoreCommand) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	if c.top < 0 {
		return usage(cmd, "--top is %d, want 0 or more", c.top)
	}
	if c.tokens.given && len(args) > 0 {
		return usage(cmd, "both a text and --tokens are given, want one")
	}
	var text string
	if !c.tokens.given {
		var err error
		if text, err = c.text(ctx, cmd, args, "", "text"); err != nil {
			return err
		}
	}
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return err
	}
	defer m.Close()
	tokens := make([]int32, len(c.tokens.value))
	for i, id := range c.tokens.value {
		tokens[i] = int32(id)
	}
	if !c.tokens.given {
		if tokens = encode(m.Tokenizer, text, c.plain); len(tokens) == 0 {
			return errors.New("the text is empty, and so there is nothing to score")
		}
	}
	scored, err := m.Score(ctx, tokens, c.top)
	if err != nil {
		return err
	}
	return c.write(m, scored)
}

// scoredToken is a token in JSON.
type scoredToken struct {
	ID      int32      `json:"id"`
	LogProb *float64   `json:"logprob"` // null for the first
	Top     []topToken `json:"top,omitzero"`
}

type topToken struct {
	ID      int32   `json:"id"`
	LogProb float64 `json:"logprob"`
}

func (c *scoreCommand) write(m *memra.Model, scored []memra.Token) error {
	var sum float64
	tokens := make([]scoredToken, len(scored))
	for i, t := range scored {
		tokens[i].ID = t.ID
		if i == 0 {
			continue
		}
		p := float64(t.LogProb) // a float64 prints with all digits that a reader of either width needs
		if math.IsInf(p, 0) {
			return fmt.Errorf("score: token %d, at place %d, has probability 0, whose logarithm no number can say", t.ID, i)
		}
		tokens[i].LogProb = &p
		sum += p
		for _, o := range t.Top {
			tokens[i].Top = append(tokens[i].Top, topToken{o.Token, float64(o.LogProb)})
		}
	}
	if c.output.value == "json" {
		return writeJSON(c.out, struct {
			Tokens []scoredToken `json:"tokens"`
			Sum    float64       `json:"sum"`
		}{tokens, sum})
	}
	w := bufio.NewWriter(c.out)
	for i, t := range scored {
		if i == 0 {
			fmt.Fprintf(w, "%7d  %10s  %q\n", t.ID, "", m.Piece(t.ID))
			continue
		}
		fmt.Fprintf(w, "%7d  %10.6f  %q", t.ID, t.LogProb, m.Piece(t.ID))
		for _, o := range t.Top {
			fmt.Fprintf(w, "  %q %.4f", m.Piece(o.Token), o.LogProb)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%7s  %10.6f\n", "sum", sum)
	return w.Flush()
}
