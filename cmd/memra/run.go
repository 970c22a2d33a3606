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
		Use:   "run -m MODEL [flags] [PROMPT|-]",
		Short: "Answer one prompt: the text on standard output, and nothing else",
		Long: `Answer one prompt: the text on standard output, and nothing else.

The prompt is a user's message in the model's own chat template. With --raw, and for a model that has no template, it is a text
to continue, in which the text of a special token stands for the token. "-" reads the prompt from standard input; there, and in
a file, a newline at the end is not part of it.

Without --temperature the likeliest token is taken each time. Any answer can be had again with the same flags.`,
		Example: `  memra run -m model.gguf 'What is the capital of France?'
  memra run -m model.gguf --system 'Answer in French.' -n 64 --temperature 0.7 --seed 3 'Who are you?'
  memra run -m model.gguf --raw --stop . 'The capital of France is'
  git diff | memra run -m model.gguf --stats -`,
		Args: oneText,
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 0, contextUsage)
	c.answer.add(cmd)
	cmd.Flags().StringVarP(&c.file, "file", "f", "", "read the prompt from a file")
	cmd.Flags().StringVar(&c.system, "system", "", "system message that precedes the prompt")
	cmd.Flags().BoolVar(&c.raw, "raw", false, "continue the prompt as text, without the chat template")
	cmd.Flags().BoolVar(&c.stats, "stats", false, "write token counts and rates to standard error")
	return cmd
}

func (c *runCommand) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	if err := c.model.check(cmd); err != nil {
		return err
	}
	if c.raw && c.system != "" {
		return usage(cmd, "--system and --raw exclude each other: a system message needs the chat template")
	}
	r, err := c.answer.request(cmd)
	if err != nil {
		return err
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
	if r, err = c.ask(m, r, prompt); err != nil {
		return err
	}
	return c.stream(ctx, m, r, began)
}

// ask puts the prompt into a request, as a message or as a text to continue.
func (c *runCommand) ask(m *memra.Model, r memra.Request, prompt string) (memra.Request, error) {
	if !c.raw && !m.HasTemplate() {
		if c.system != "" {
			return r, memra.ErrNoTemplate
		}
		fmt.Fprintf(c.err, "memra: %s has no chat template: it continues the prompt as text, as with --raw\n", c.model.path)
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

// stream writes the answer as it comes.
func (c *runCommand) stream(ctx context.Context, m *memra.Model, r memra.Request, began time.Time) (err error) {
	if isTerminal(c.out) {
		defer func() { // the shell's prompt wants a line of its own
			if _, e := fmt.Fprintln(c.out); err == nil {
				err = e
			}
		}()
	}
	var first time.Duration
	for chunk, err := range m.Generate(ctx, r) {
		if err != nil {
			return err
		}
		if first == 0 {
			first = time.Since(began)
		}
		if _, err := fmt.Fprint(c.out, chunk.Text); err != nil {
			return err
		}
		if chunk.Done != nil && c.stats {
			defer func() { c.writeStats(m, r, chunk.Done, first) }() // below the answer's line
		}
	}
	return nil
}

func (c *runCommand) writeStats(m *memra.Model, r memra.Request, d *memra.Done, first time.Duration) {
	if !isTerminal(c.out) { // where both streams go to one place, the answer's line is still open
		fmt.Fprintln(c.err)
	}
	fmt.Fprint(c.err, statsText(d))
	fmt.Fprintf(c.err, "first token after %.2f s, with opening the file; %s, seed %d\n", first.Seconds(), m.Device(), r.Sampling.Seed)
}

// statsText is an answer's counts and rates. The first token comes with the prompt, so it does not count for the second rate.
func statsText(d *memra.Done) string {
	var b strings.Builder
	fmt.Fprintf(&b, "prompt  %5d tokens", d.Prompt)
	if d.Reused > 0 {
		fmt.Fprintf(&b, " (%d of them kept from before)", d.Reused)
	}
	fmt.Fprintf(&b, ", %.2f s, %.1f tokens/s\n", d.Prefill.Seconds(), rate(d.Prompt-d.Reused, d.Prefill))
	fmt.Fprintf(&b, "answer  %5d tokens, %.2f s, %.1f tokens/s; end: %s\n", d.Tokens, d.Decode.Seconds(), rate(d.Tokens-1, d.Decode), d.Reason)
	return b.String()
}

func rate(tokens int, d time.Duration) float64 {
	if tokens <= 0 || d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}
