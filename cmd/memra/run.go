package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"memra"
	"memra/chat"
)

type runCommand struct {
	*app
	model        modelFlags
	answer       requestFlags
	file, system string
	raw, stats   bool
}

func newRun(a *app) *cobra.Command {
	c := &runCommand{app: a}
	cmd := &cobra.Command{
		Use:   "run [-m MODEL] [flags] [PROMPT|-]",
		Short: "Answer one prompt: the text on standard output, and nothing else",
		Long: `Answer one prompt: the text on standard output, and nothing else.

The prompt is a user's message in the model's own chat template. With --raw, and for a model that has no template, it is a text
to continue, in which the text of a special token stands for the token. "-" reads the prompt from standard input; there, and in
a file, a newline at the end is not part of it.

Without -m the model is the one in this program, which completes Go code: to the end of the declaration that the prompt begins, 256 tokens
at most, unless -n, --stop or --stop-after says otherwise. Without a prompt as well, a short tour shows what it does and what to try next.

Without --temperature the likeliest token is taken each time. Any answer can be had again with the same flags.`,
		Example: `  memra run
  memra run 'func Reverse(s string) string {'
  memra run -m model.gguf 'What is the capital of France?'
  memra run -m model.gguf --system 'Answer in French.' -n 64 --temperature 0.7 --seed 3 'Who are you?'
  memra run -m model.gguf --raw --stop . 'The capital of France is'
  git diff | memra run -m model.gguf --stats -`,
		Args: oneText,
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 0, contextUsage)
	c.model.drafts.add(cmd)
	c.model.prefix.add(cmd)
	c.answer.add(cmd, -1)
	cmd.Flags().StringVarP(&c.file, "file", "f", "", "read the prompt from a file")
	cmd.Flags().StringVar(&c.system, "system", "", "system message that precedes the prompt")
	cmd.Flags().BoolVar(&c.raw, "raw", false, "continue the prompt as text, without the chat template")
	cmd.Flags().BoolVar(&c.stats, "stats", false, "write token counts and rates to standard error")
	return cmd
}

func (c *runCommand) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	if c.raw && c.system != "" {
		return usage(cmd, "--system and --raw exclude each other: a system message needs the chat template")
	}
	r, err := c.answer.request(cmd)
	if err != nil {
		return err
	}
	if len(args) == 0 && c.file == "" && (c.model.path == "" || c.model.path == memra.Builtin) && !c.piped() {
		return c.tour(ctx, cmd, r)
	}
	prompt, err := c.text(ctx, cmd, args, c.file, "prompt")
	if err != nil {
		return err
	}
	if c.file != "" || args[0] == "-" {
		prompt = strings.TrimSuffix(strings.TrimSuffix(prompt, "\n"), "\r")
	}
	if err := checkUTF8(prompt, "prompt"); err != nil {
		return err
	}
	began := time.Now()
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return err
	}
	defer m.Close()
	if c.model.path == memra.Builtin {
		endWithDeclaration(cmd, &r, prompt)
		r.Heal = true
	}
	if r, err = c.ask(m, r, prompt); err != nil {
		return err
	}
	done, first, err := c.stream(ctx, m, r, began)
	if err == nil && c.stats {
		c.writeStats(m, r, done, first)
	}
	return err
}

// ask puts the prompt into a request, as a message or as a text to continue.
func (c *runCommand) ask(m *memra.Model, r memra.Request, prompt string) (memra.Request, error) {
	if !c.raw && !m.HasTemplate() {
		if c.system != "" {
			return r, memra.ErrNoTemplate
		}
		if c.model.path != memra.Builtin { // everybody is told that this one completes
			fmt.Fprintf(c.err, "memra: %s has no chat template: it continues the prompt as text, as with --raw\n", c.model.path)
		}
	}
	if c.raw || !m.HasTemplate() {
		r.Prompt = prompt
		return r, nil
	}
	if prompt == "" {
		return r, errors.New("the prompt is empty; give the model something to answer, or use --raw to let it begin by itself")
	}
	if c.system != "" {
		r.Messages = append(r.Messages, chat.Message{Role: "system", Content: c.system})
	}
	r.Messages = append(r.Messages, chat.Message{Role: "user", Content: prompt})
	return r, nil
}
