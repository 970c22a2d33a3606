package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"memra"
)

// mostTokens is more than any model's context, and few enough for sums of three not to overflow anywhere.
const mostTokens = 1 << 28

type benchCommand struct {
	*app
	model                                        modelFlags
	synthetic, format                            choice // no model file: a shape and a format
	prompts, generates, depths, streams, threads numbers
	repetitions                                  int
	load                                         load
	text                                         string // a file; "": drafts are not measured
	output                                       choice
}

// none is the shape that stands for a model file.
const none = "none"

func newBench(a *app) *cobra.Command {
	c := &benchCommand{app: a, output: choices("md", "json", "jsonl", "csv"),
		synthetic: choices(append([]string{none}, memra.SyntheticNames()...)...), format: choices(memra.SyntheticFormats()...)}
	cmd := &cobra.Command{
		Use:   "bench [-m MODEL | --synthetic NAME] [flags]",
		Short: "Measure tokens a second, with llama-bench's flags and fields",
		Long: `Measure tokens a second, with llama-bench's flags and fields: "pp" tests compute a prompt of -p tokens at once, "tg" tests
generate -n tokens one by one, in -b sequences that step together, both after -d tokens that are not timed. Each runs once to warm
up and then -r times. Each step picks its likeliest token; tokenising is left out. -p 0 and -n 0 leave a test out; -p, -n, -d, -b and
-t take lists.

--requests measures the engine under a load instead: N requests of -p random tokens, each with -n tokens generated, or those of a FILE as memra
batch has it, -b of them served at a time. It shows requests a second, tokens a second, the time to the first token and from a token to
the next (median, 90 % and 99 %); and, beside, the rate of bare steps.

--text measures what guessing tokens ahead brings (--draft): -n tokens that follow the text of a file, in -b sequences together, without
guesses and with them in turn. The text decides how many guesses come true; random tokens would say nothing.

--synthetic measures a model of a well-known shape with random weights in --format: there is nothing to download, and the rates are
a real model's. The names that end in _M are llama.cpp's mixes of formats.

Beside each rate stands its floor: the tokens a second if the machine did nothing but read the bytes that the test must read, at
the bandwidth measured before the first test. A rate near its floor cannot be improved on that machine without reading less.`,
		Example: `  memra bench -m model.gguf
  memra bench -m model.gguf -p 512,1024 -n 0
  memra bench -m model.gguf -p 0 -n 128 -d 0,4096 -t 1,2 -r 3 -o json
  memra bench -m model.gguf --requests 64 -p 512 -n 128 -b 1,16
  memra bench --synthetic Llama-3.1-8B --format Q4_K_M -p 512,2048 -n 64 -d 512 -b 1,16,64`,
		Args: cobra.NoArgs,
		RunE: interruptible(c.run),
	}
	c.model.addPath(cmd)
	c.model.device.add(cmd)
	c.model.addCache(cmd)
	c.model.addMemory(cmd)
	c.model.drafts.add(cmd)
	c.model.prefix.add(cmd)
	flags := cmd.Flags()
	flags.Var(&c.synthetic, "synthetic", "measure random weights of this model's shape instead of a file")
	c.synthetic.complete(cmd, "synthetic")
	flags.Var(&c.format, "format", "format of a synthetic model's weights")
	c.format.complete(cmd, "format")
	c.prompts = numbers{value: []int{512}, most: mostTokens}
	c.generates = numbers{value: []int{128}, most: mostTokens}
	c.depths = numbers{value: []int{0}, most: mostTokens}
	c.streams = numbers{value: []int{1}, least: 1, most: 4096}
	c.threads = numbers{value: []int{runtime.GOMAXPROCS(0)}, least: 1, most: 1024}
	flags.VarP(&c.prompts, "n-prompt", "p", "tokens of the prompt")
	flags.VarP(&c.generates, "n-gen", "n", "tokens to generate")
	flags.VarP(&c.depths, "n-depth", "d", "tokens before those")
	flags.VarP(&c.streams, "streams", "b", "sequences that generate together; requests that are served at a time")
	flags.VarP(&c.threads, "threads", "t", "threads of the CPU that compute")
	flags.IntVarP(&c.repetitions, "repetitions", "r", 5, "times that each test is measured")
	flags.Var(&c.load, "requests", "measure the engine: how it serves so many requests, or those of a file, -b at a time")
	flags.StringVar(&c.text, "text", "", "measure what --draft brings, on what follows the text of this file")
	must(cmd.MarkFlagFilename("text"))
	c.output.addOutput(cmd)
	return cmd
}

func (c *benchCommand) run(ctx context.Context, cmd *cobra.Command, _ []string) (err error) {
	if c.synthetic.value == none {
		if cmd.Flags().Changed("format") {
			return usage(cmd, "--format is for --synthetic; a file has its own format")
		}
	} else if c.model.path != "" {
		return usage(cmd, "both -m and --synthetic are given, want one")
	}
	if c.repetitions < 1 {
		return usage(cmd, "-r is %d, want 1 or more", c.repetitions)
	}
	if c.text != "" && (c.load.text != "" || c.synthetic.value != none) {
		return usage(cmd, "--text measures drafts on a model of a file: give it without --requests and --synthetic")
	}
	tests := c.tests()
	if err := c.room(cmd, tests); err != nil {
		return err
	}
	table := newBenchTable(c.output.value, c.out)
	defer func() {
		if e := table.end(); err == nil {
			err = e
		}
	}()
	if c.synthetic.value == none {
		c.model.choose(c.app)
	}
	for _, threads := range c.threads.value {
		if err := c.measure(ctx, threads, tests, table); err != nil {
			return err
		}
	}
	return nil
}

// room makes the context as large as the tests, or the load, want it.
func (c *benchCommand) room(cmd *cobra.Command, tests []memra.BenchTest) error {
	switch {
	case c.text != "":
		return nil // what the model was made for
	case c.load.file != "" && c.synthetic.value != none:
		return usage(cmd, "--requests names a file, whose texts a synthetic model cannot read; give a number")
	case c.load.file != "":
		return nil // what the model was made for
	case c.load.count > 0:
		if slices.Min(c.prompts.value) == 0 || slices.Min(c.generates.value) == 0 {
			return usage(cmd, "--requests wants tokens given and tokens generated: -p and -n from 1")
		}
		c.model.context = slices.Max(c.prompts.value) + slices.Max(c.generates.value)
		return nil
	case len(tests) == 0:
		return usage(cmd, "-p and -n leave no test to run")
	}
	for _, t := range tests {
		c.model.context = max(c.model.context, t.Depth+t.Prompt+t.Generate)
	}
	return nil
}

// tests is every combination, in llama-bench's order.
func (c *benchCommand) tests() (tests []memra.BenchTest) {
	for _, depth := range c.depths.value {
		for _, n := range c.prompts.value {
			if n > 0 {
				tests = append(tests, memra.BenchTest{Prompt: n, Depth: depth})
			}
		}
		for _, n := range c.generates.value {
			for _, streams := range c.streams.value {
				if n > 0 {
					tests = append(tests, memra.BenchTest{Generate: n, Depth: depth, Streams: streams})
				}
			}
		}
	}
	return tests
}

// benchModel is a model that can be measured: one of a file, or a synthetic one.
type benchModel interface {
	Serve(ctx context.Context, l memra.Load) (memra.Served, error)
	Bench(ctx context.Context, t memra.BenchTest, repetitions int, bandwidth float64) (memra.BenchResult, error)
	ReadBandwidth() (float64, error)
	Facts() memra.Facts
	Close() error
}

// open opens the model, with room for the streams of every test.
func (c *benchCommand) open(ctx context.Context) (benchModel, error) {
	options := c.model.options(c.app, slices.Max(c.streams.value))
	switch {
	case c.text != "":
		options.NoPrefixCache = true
	case c.load.text == "":
		options.Draft, options.NoPrefixCache = memra.DraftOff, true // bare steps
	}
	return await(ctx, func() (benchModel, error) {
		if c.synthetic.value != none {
			return opened(memra.OpenSynthetic(c.synthetic.value, c.format.value, options))
		}
		return opened(memra.Open(c.model.path, options))
	})
}

// opened keeps a nil pointer from becoming a model that is not nil.
func opened[M benchModel](m M, err error) (benchModel, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (c *benchCommand) measure(ctx context.Context, threads int, tests []memra.BenchTest, table benchTable) error {
	c.model.threads = threads
	m, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	bandwidth, err := m.ReadBandwidth()
	if err != nil {
		return err
	}
	c.log.Debug("read bandwidth", "device", m.Facts().Device, "threads", threads, "GB/s", bandwidth/1e9)
	if c.text != "" {
		return c.drafts(ctx, m.(*memra.Model), table)
	}
	if c.load.text != "" {
		return c.serve(ctx, m, bandwidth, table)
	}
	for _, t := range tests {
		began := time.Now()
		r, err := m.Bench(ctx, t, c.repetitions, bandwidth)
		if err != nil {
			return err
		}
		if err := table.row(newBenchRow(m.Facts(), c.model.cache.value, began, bandwidth, r)); err != nil {
			return err
		}
	}
	return nil
}

// benchFacts are what rows say of the model and the machine, under llama-bench's names.
type benchFacts struct {
	BuildCommit   string `json:"build_commit"`
	CPUInfo       string `json:"cpu_info"`
	GPUInfo       string `json:"gpu_info"` // with the driver; "" on the CPU
	Backends      string `json:"backends"`
	ModelFilename string `json:"model_filename"`
	ModelType     string `json:"model_type"`
	ModelSize     int    `json:"model_size"`
	ModelNParams  int    `json:"model_n_params"`
	NThreads      int    `json:"n_threads"`
	TypeK         string `json:"type_k"`
	TypeV         string `json:"type_v"`
	TestTime      string `json:"test_time"`
}

func newBenchFacts(f memra.Facts, kv string, began time.Time) benchFacts {
	b := benchFacts{
		BuildCommit: readBuild().Commit, CPUInfo: f.CPU, Backends: strings.ToUpper(f.Class),
		ModelFilename: f.File, ModelType: fmt.Sprintf("%s %.0fM %s", f.Family, float64(f.Parameters)/1e6, f.Format),
		ModelSize: f.Bytes, ModelNParams: f.Parameters, NThreads: f.Threads, TypeK: kv, TypeV: kv, TestTime: began.UTC().Format(time.RFC3339),
	}
	if f.Class != "cpu" {
		b.GPUInfo = f.Device
	}
	return b
}

func (b benchFacts) build() string { return b.BuildCommit }

func (b benchFacts) columns() []column {
	return []column{{"model", b.ModelType, -30}, {"size", bytesText(b.ModelSize), 10}, {"params", countText(b.ModelNParams), 10}, {"backend", b.Backends, -10},
		{"threads", fmt.Sprint(b.NThreads), 7}}
}

// commandLine is the command that measures.
func commandLine() string { return strings.Join(append([]string{"memra"}, os.Args[1:]...), " ") }

// benchRow is a result under llama-bench's names, and what it has no name for: streams, kernels, bandwidth, floor_ts, command.
type benchRow struct {
	benchFacts
	NPrompt   int       `json:"n_prompt"`
	NGen      int       `json:"n_gen"`
	NDepth    int       `json:"n_depth"`
	NStreams  int       `json:"n_streams"` // sequences that step together; rates count the tokens of all
	AvgNS     int64     `json:"avg_ns"`
	StddevNS  int64     `json:"stddev_ns"`
	AvgTS     float64   `json:"avg_ts"`
	StddevTS  float64   `json:"stddev_ts"`
	SamplesNS []int64   `json:"samples_ns"`
	SamplesTS []float64 `json:"samples_ts"`
	FloorTS   float64   `json:"floor_ts"`
	Bandwidth float64   `json:"read_bandwidth"` // bytes a second
	Kernels   int       `json:"kernels"`        // launched by a step; 0: the device has none
	Command   string    `json:"command"`
}

func newBenchRow(f memra.Facts, kv string, began time.Time, bandwidth float64, r memra.BenchResult) benchRow {
	row := benchRow{benchFacts: newBenchFacts(f, kv, began), NPrompt: r.Prompt, NGen: r.Generate, NDepth: r.Depth, NStreams: max(1, r.Streams),
		FloorTS: r.Floor, Bandwidth: bandwidth, Kernels: r.Kernels, Command: commandLine()}
	nanoseconds := make([]float64, len(r.Samples))
	for i, d := range r.Samples {
		nanoseconds[i] = float64(d)
		row.SamplesNS = append(row.SamplesNS, d.Nanoseconds())
		row.SamplesTS = append(row.SamplesTS, r.Rate(d))
	}
	mean, deviation := meanDeviation(nanoseconds)
	row.AvgNS, row.StddevNS = int64(mean), int64(deviation)
	row.AvgTS, row.StddevTS = r.Rates()
	return row
}

// meanDeviation is the mean and the sample's standard deviation, 0 for a single value.
func meanDeviation(x []float64) (mean, deviation float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	if len(x) < 2 {
		return mean, 0
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(x)-1))
}

func (r benchRow) columns() []column {
	return append(r.benchFacts.columns(), column{"test", r.test(), 18}, column{"t/s", fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.StddevTS), 20},
		column{"floor t/s", fmt.Sprintf("%.2f", r.FloorTS), 10}, column{"kernels", fmt.Sprint(r.Kernels), 7})
}

// test is the name of a test: "pp512", "tg128 x16 @ d4096".
func (r benchRow) test() string {
	name := fmt.Sprintf("pp%d", r.NPrompt)
	if r.NGen > 0 {
		name = fmt.Sprintf("tg%d", r.NGen)
	}
	if r.NStreams > 1 {
		name += fmt.Sprintf(" x%d", r.NStreams)
	}
	if r.NDepth > 0 {
		name += fmt.Sprintf(" @ d%d", r.NDepth)
	}
	return name
}
