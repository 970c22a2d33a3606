package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"memra"
	"memra/internal/batch"
	"memra/internal/openai"
)

type batchCommand struct {
	*app
	model    modelFlags
	answer   requestFlags
	in, out  string
	parallel int
}

func newBatch(a *app) *cobra.Command {
	c := &batchCommand{app: a}
	cmd := &cobra.Command{
		Use:   "batch [-m MODEL] -i IN.jsonl -o OUT.jsonl [flags]",
		Short: "Answer a file of requests, many at once",
		Long: `Answer a file of requests, many at once.

A line of IN is a batch request as OpenAI's API has it, {"custom_id":..,"method":"POST","url":"/v1/chat/completions" or
"/v1/completions","body":{..}}, or a body alone: {"prompt":..} or {"messages":..}, with a custom_id if you like. A line of OUT is the answer, in
the order of IN and in the API's shape, with usage and, where asked for, log-probabilities. A line that is wrong gets an answer that says
what is, and the rest go on.

A run that is killed is started again with the same command: it goes on behind the last whole line of OUT. An OUT that answers other lines, or that
another model or other flags have begun, is refused and left alone.

What a line leaves out is as in the API, temperature 1 and for texts 16 tokens, or as the flags say. The seed is 0, so equal lines get equal
answers: give them seeds, or n.`,
		Example: `  memra batch -m model.gguf -i requests.jsonl -o answers.jsonl
  memra batch -m model.gguf -i prompts.jsonl -o answers.jsonl -n 256 --temperature 0
  generate-prompts | memra batch -m model.gguf -i - -o - | jq -r .response.body.choices[0].text`,
		Args: cobra.NoArgs,
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 0, contextUsage)
	c.model.drafts.add(cmd)
	c.model.prefix.add(cmd)
	c.answer.params.Temperature = 1
	c.answer.add(cmd, -1)
	flags := cmd.Flags()
	flags.StringVarP(&c.in, "input", "i", "", "file of requests, a line each; - is standard input")
	flags.StringVarP(&c.out, "output", "o", "", "file of answers, a line each; - is standard output")
	flags.IntVar(&c.parallel, "parallel", 64, "requests that are computed at a time, if the KV cache has room for them")
	c.model.addMemory(cmd)
	must(cmd.MarkFlagFilename("input", "jsonl"))
	must(cmd.MarkFlagFilename("output", "jsonl"))
	return cmd
}

func (c *batchCommand) run(ctx context.Context, cmd *cobra.Command, _ []string) (err error) {
	defaults, err := c.defaults(cmd)
	if err != nil {
		return err
	}
	switch {
	case c.in == "":
		return usage(cmd, "-i is missing: name the file of requests, or - for standard input")
	case c.out == "":
		return usage(cmd, "-o is missing: name the file for the answers, or - for standard output")
	case c.parallel < 1:
		return usage(cmd, "--parallel is %d, want 1 or more", c.parallel)
	}
	in, size, err := c.input()
	if err != nil {
		return err
	}
	defer in.Close()
	c.model.choose(c.app)
	m, err := await(ctx, func() (*memra.Model, error) { return memra.Open(c.model.path, c.model.options(c.app, c.parallel)) })
	if err != nil {
		return err
	}
	defer m.Close()
	job := &batchJob{app: c.app, began: time.Now(), size: size, bar: c.bytesBar("batch"), batch: openai.Batch{Model: m, Defaults: defaults}}
	job.Job = batch.Job{Key: c.key(m, defaults), Parallel: c.parallel, Prefix: `{"id":"batch_req_`, Work: job.work, Wrote: job.wrote}
	out, err := c.begin(job, batch.NewReader(in, job.Key))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return job.finish(job.Run(ctx, job.lines, out))
}

// defaults are what a body leaves out.
func (c *batchCommand) defaults(cmd *cobra.Command) (func(openai.Endpoint) memra.Request, error) {
	flags, err := c.answer.request(cmd)
	if err != nil {
		return nil, err
	}
	return func(e openai.Endpoint) memra.Request {
		r := flags
		r.Patient = true
		if !cmd.Flags().Changed("predict") {
			r.MaxTokens = openai.Defaults(e).MaxTokens
		}
		return r
	}, nil
}

// input opens the requests; a size of -1 is one that nobody knows.
func (c *batchCommand) input() (in io.ReadCloser, size int, err error) {
	if c.in == "-" {
		return io.NopCloser(c.app.in), -1, nil
	}
	f, err := os.Open(c.in)
	if err != nil {
		return nil, 0, fmt.Errorf("batch: the requests: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("batch: the requests: %s is a folder, want a file with a request a line", c.in)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, int(info.Size()), nil
}

// key names what shapes answers beside the lines.
func (c *batchCommand) key(m *memra.Model, defaults func(openai.Endpoint) memra.Request) string {
	return fmt.Sprintf("%s %s %s %d %+v %+v", m.Fingerprint(), m.Facts().Class, c.model.cache.value, m.Context(), defaults(openai.Chat), defaults(openai.Text))
}

// begin opens the file of answers and finds out what is done already.
func (c *batchCommand) begin(job *batchJob, lines *batch.Reader) (io.WriteCloser, error) {
	job.lines = lines
	if c.out == "-" {
		return nopCloser{c.app.out}, nil
	}
	f, err := os.OpenFile(c.out, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("batch: the answers: %w", err)
	}
	done, err := job.Resume(lines, f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("batch: %s: %w", c.out, err), f.Close())
	}
	if done > 0 {
		fmt.Fprintf(c.err, "memra: %s has %d answers already; going on behind them\n", c.out, done)
	}
	job.start = lines.End()
	return f, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// batchJob answers lines and keeps count.
type batchJob struct {
	*app
	batch.Job
	batch       openai.Batch
	lines       *batch.Reader
	began       time.Time
	start, size int // bytes of the input: done before, and all
	bar         *bar

	answered, refused, prompt, cached, generated atomic.Int64
}

func (j *batchJob) work(ctx context.Context, l batch.Line) ([]byte, error) {
	if l.Err != nil {
		j.refused.Add(1)
		return toJSON(j.batch.Refuse(l.ID, l.Err))
	}
	a, err := j.batch.Answer(ctx, l.ID, l.Text)
	if err != nil {
		return nil, err
	}
	if c := a.Completion(); c != nil {
		j.answered.Add(1)
		j.prompt.Add(int64(c.Usage.Prompt))
		j.cached.Add(int64(c.Usage.Details.Cached))
		j.generated.Add(int64(c.Usage.Completion))
	} else {
		j.refused.Add(1)
	}
	return toJSON(a)
}

func (j *batchJob) wrote(l batch.Line) {
	seconds := time.Since(j.began).Seconds()
	j.bar.describe(fmt.Sprintf("%d answers, %.0f prompt and %.0f answer tokens/s",
		j.answered.Load(), float64(j.prompt.Load())/seconds, float64(j.generated.Load())/seconds))
	total := -1
	if j.size >= 0 {
		total = j.size - j.start
	}
	j.bar.set(l.End-j.start, total)
}

// finish says what was done.
func (j *batchJob) finish(err error) error {
	j.bar.finish()
	seconds := time.Since(j.began).Seconds()
	var cached string
	if n := j.cached.Load(); n > 0 {
		cached = fmt.Sprintf(" (%d cached)", n)
	}
	fmt.Fprintf(j.err, "memra: %d answers, %d refusals; %d prompt tokens%s and %d answer tokens in %.1f s: %.2f requests/s, %.1f answer tokens/s\n",
		j.answered.Load(), j.refused.Load(), j.prompt.Load(), cached, j.generated.Load(), seconds,
		float64(j.answered.Load())/seconds, float64(j.generated.Load())/seconds)
	return err
}
