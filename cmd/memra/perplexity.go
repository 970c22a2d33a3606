package main

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"memra"
)

type perplexityCommand struct {
	*app
	model  modelFlags
	file   string
	others []string
	output choice
}

func newPerplexity(a *app) *cobra.Command {
	c := &perplexityCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "perplexity [-m MODEL] -f FILE [flags]",
		Short: "Measure how well a model predicts a text",
		Long: `Measure how well a model predicts a text, by llama.cpp's protocol: the text is cut into windows of -c tokens, and the second
half of each is scored; a model that wants a start token gets it in place of each window's first. What does not fill a window is
left out. Lower is better. "-f -" reads standard input.

--compare measures another model on the same windows, and how far its predictions are from those of -m: the mean Kullback-Leibler
divergence in nats, and how often the likeliest token is the same.`,
		Example: `  memra perplexity -m model.gguf -f wiki.test.raw
  memra perplexity -m model-f32.gguf --compare model-q4.gguf --compare model-q2.gguf -f wiki.test.raw
  memra perplexity -m model.gguf -f book.txt -c 2048 -o json`,
		Args: cobra.NoArgs,
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 512, "tokens of a window")
	cmd.Flags().StringVarP(&c.file, "file", "f", "", "the text")
	cmd.Flags().StringArrayVar(&c.others, "compare", nil, "also measure this model, and how far it is from the one of -m; may be repeated")
	must(cmd.MarkFlagFilename("compare", "gguf"))
	c.output.addOutput(cmd)
	return cmd
}

func (c *perplexityCommand) run(ctx context.Context, cmd *cobra.Command, _ []string) error {
	if c.file == "" {
		return usage(cmd, "no text is given; name a file with -f")
	}
	var args []string
	file := c.file
	if file == "-" {
		args, file = []string{"-"}, ""
	}
	text, err := c.text(ctx, cmd, args, file, "text")
	if err != nil {
		return err
	}
	if c.model.context < 4 {
		return usage(cmd, "windows of %d tokens, want 4 or more", c.model.context)
	}
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return err
	}
	defer m.Close()
	var others []*memra.Model
	for _, path := range c.others {
		with := c.model
		with.path = path
		other, err := with.open(ctx, c.app)
		if err != nil {
			return err
		}
		defer other.Close()
		others = append(others, other)
	}
	progress, finish := c.progress()
	var p memra.Perplexity
	var compared []memra.Comparison
	if len(others) == 0 {
		p, err = m.Perplexity(ctx, text, c.model.context, progress)
	} else {
		p, compared, err = m.Compare(ctx, text, c.model.context, others, progress)
	}
	finish()
	if err != nil {
		return err
	}
	if c.output.value == "json" {
		return writeJSON(c.out, c.result(p, compared))
	}
	w := bufio.NewWriter(c.out)
	fmt.Fprintf(w, "perplexity %.4f over %d tokens, in %d windows of %d\n", p.PPL, p.Tokens, p.Windows, c.model.context)
	for i, other := range compared {
		fmt.Fprintf(w, "%s: perplexity %.4f, KL divergence %.5f, same likeliest token %.2f %%\n", harmless(c.others[i]), other.PPL, other.KL, 100*other.SameTop)
	}
	return w.Flush()
}

// result is what JSON says.
func (c *perplexityCommand) result(p memra.Perplexity, compared []memra.Comparison) any {
	type named struct {
		Model string `json:"model"`
		memra.Comparison
	}
	r := struct {
		memra.Perplexity
		Compared []named `json:"compared,omitempty"`
	}{Perplexity: p}
	for i, other := range compared {
		r.Compared = append(r.Compared, named{c.others[i], other})
	}
	return r
}

// progress shows each window on standard error: as a bar to people, as log lines with -v.
func (c *perplexityCommand) progress() (progress func(done, windows int, ppl float64), finish func()) {
	if !isTerminal(c.err) {
		return func(done, windows int, ppl float64) {
			c.log.Debug("window", "done", done, "of", windows, "ppl", ppl)
		}, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(done, windows int, ppl float64) {
			if bar == nil {
				bar = progressbar.NewOptions(windows, progressbar.OptionSetWriter(c.err), progressbar.OptionShowCount(),
					progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
			}
			bar.Describe(fmt.Sprintf("perplexity %.2f", ppl))
			_ = bar.Set(done) // it could only not be drawn
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
