package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"memra"
	"memra/internal/batch"
	"memra/internal/openai"
)

// load is the requests of --requests: so many of random tokens, or those of a file.
type load struct {
	text  string
	count int    // 0: those of a file
	file  string // as in memra batch
}

func (l *load) Type() string   { return "N|FILE" }
func (l *load) String() string { return l.text }

func (l *load) Set(text string) error {
	l.text = text
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		l.file = text
	case n < 1:
		return errors.New("want a number from 1, or a file of requests")
	}
	l.count = n
	return nil
}

// read reads the file's requests. One that is wrong is an error: a measurement has none.
func (l *load) read() (requests []memra.Request, err error) {
	f, err := os.Open(l.file)
	if err != nil {
		return nil, fmt.Errorf("bench: the requests: %w", err)
	}
	defer f.Close()
	lines := batch.NewReader(bufio.NewReader(f), "")
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, line.Err); err != nil {
			return nil, fmt.Errorf("bench: %s: line %d: %w", l.file, line.Number, err)
		}
		r, err := openai.DecodeLine(line.Text, openai.Defaults)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: line %d: %w", l.file, line.Number, err)
		}
		for _, ask := range r.Asks {
			ask.N = r.BestOf
			requests = append(requests, ask)
		}
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("bench: %s has no requests", l.file)
	}
	return requests, nil
}

// serve measures the engine under the load.
func (c *benchCommand) serve(ctx context.Context, m benchModel, bandwidth float64, table benchTable) error {
	if c.load.count == 0 {
		requests, err := c.load.read()
		if err != nil {
			return err
		}
		for _, parallel := range c.streams.value {
			began := time.Now()
			s, err := m.(*memra.Model).ServeRequests(ctx, requests, parallel)
			if err != nil {
				return err
			}
			if err := table.row(c.newLoadRow(m.Facts(), began, loadTest{parallel: parallel}, s)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, l := range c.loads() {
		began := time.Now()
		s, err := m.Serve(ctx, l)
		if err != nil {
			return err
		}
		t := loadTest{prompt: l.Prompt, generate: l.Generate, parallel: l.Parallel}
		steps, err := m.Bench(ctx, memra.BenchTest{Generate: l.Generate, Depth: l.Prompt, Streams: min(l.Parallel, l.Requests)}, 1, bandwidth)
		if err != nil {
			return err
		}
		t.steps, _ = steps.Rates()
		if err := table.row(c.newLoadRow(m.Facts(), began, t, s)); err != nil {
			return err
		}
	}
	return nil
}

// loads is every combination.
func (c *benchCommand) loads() (loads []memra.Load) {
	for _, prompt := range c.prompts.value {
		for _, generate := range c.generates.value {
			for _, parallel := range c.streams.value {
				loads = append(loads, memra.Load{Requests: c.load.count, Prompt: prompt, Generate: generate, Parallel: parallel})
			}
		}
	}
	return loads
}

// loadTest is what was asked for.
type loadTest struct {
	prompt, generate int // 0: the file's
	parallel         int
	steps            float64 // tokens a second of bare steps; 0: not measured
}

// loadRow is how a load was served.
type loadRow struct {
	benchFacts
	NPrompt      int     `json:"n_prompt"` // of each request; 0: a file has them
	NGen         int     `json:"n_gen"`
	NParallel    int     `json:"n_parallel"` // requests that were served at a time
	NRequests    int     `json:"n_requests"`
	PromptTokens int     `json:"prompt_tokens"`
	CachedTokens int     `json:"cached_tokens"` // of them
	GenTokens    int     `json:"gen_tokens"`
	Draft        string  `json:"draft"`    // what guesses tokens ahead
	Drafted      int     `json:"drafted"`  // tokens that were guessed ahead
	Accepted     int     `json:"accepted"` // of which so many were right
	Preempted    int     `json:"preempted"`
	ElapsedNS    int64   `json:"elapsed_ns"`
	RequestsS    float64 `json:"requests_per_s"`
	PromptTS     float64 `json:"prompt_ts"` // tokens a second, of the whole time
	GenTS        float64 `json:"gen_ts"`
	StepTS       float64 `json:"step_ts"`        // of bare steps of as many sequences; 0: not measured
	FirstP50     int64   `json:"first_token_ns"` // from a request to its first token: median
	FirstP90     int64   `json:"first_token_p90_ns"`
	FirstP99     int64   `json:"first_token_p99_ns"`
	TokenP50     int64   `json:"token_ns"` // from a token to the next
	TokenP90     int64   `json:"token_p90_ns"`
	TokenP99     int64   `json:"token_p99_ns"`
	Command      string  `json:"command"`
}

func (c *benchCommand) newLoadRow(f memra.Facts, began time.Time, t loadTest, s memra.Served) loadRow {
	seconds := s.Elapsed.Seconds()
	slices.Sort(s.First)
	slices.Sort(s.Next)
	return loadRow{
		benchFacts: newBenchFacts(f, c.model.cache.value, began),
		NPrompt:    t.prompt, NGen: t.generate, NParallel: t.parallel, NRequests: s.Requests,
		PromptTokens: s.Prompt, CachedTokens: s.Cached, GenTokens: s.Generated, Draft: c.model.drafts.kind,
		Drafted: s.Drafted, Accepted: s.Accepted, Preempted: s.Preempted, ElapsedNS: s.Elapsed.Nanoseconds(),
		RequestsS: float64(s.Requests) / seconds, PromptTS: float64(s.Prompt) / seconds, GenTS: float64(s.Generated) / seconds, StepTS: t.steps,
		FirstP50: quantile(s.First, 0.5), FirstP90: quantile(s.First, 0.9), FirstP99: quantile(s.First, 0.99),
		TokenP50: quantile(s.Next, 0.5), TokenP90: quantile(s.Next, 0.9), TokenP99: quantile(s.Next, 0.99),
		Command: commandLine(),
	}
}

// quantile is the smallest of sorted times that a share of them does not exceed, in nanoseconds; 0 of none.
func quantile(sorted []time.Duration, share float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)].Nanoseconds()
}

func (r loadRow) columns() []column {
	three := func(a, b, c int64) string {
		return fmt.Sprintf("%.1f / %.1f / %.1f", float64(a)/1e6, float64(b)/1e6, float64(c)/1e6)
	}
	return append(r.benchFacts.columns(),
		column{"requests", r.test(), 29},
		column{"requests/s", fmt.Sprintf("%.2f", r.RequestsS), 10},
		column{"prompt t/s", fmt.Sprintf("%.1f", r.PromptTS), 10},
		column{"answer t/s", fmt.Sprintf("%.1f", r.GenTS), 10},
		column{"steps t/s", fmt.Sprintf("%.1f", r.StepTS), 10},
		column{"first token ms", three(r.FirstP50, r.FirstP90, r.FirstP99), 24},
		column{"token ms", three(r.TokenP50, r.TokenP90, r.TokenP99), 22},
		column{"cached", fmt.Sprint(r.CachedTokens), 7},
		column{"drafts right", fmt.Sprintf("%d/%d", r.Accepted, r.Drafted), 12})
}

// test is the name of a load: "64 x pp512+tg128, 16 at a time".
func (r loadRow) test() string {
	name := fmt.Sprint(r.NRequests)
	if r.NGen > 0 {
		name += fmt.Sprintf(" x pp%d+tg%d", r.NPrompt, r.NGen)
	}
	return fmt.Sprintf("%s, %d at a time", name, r.NParallel)
}
