package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"memra"
	"memra/compute/cuda"
	"memra/gguf"
	"memra/internal/check"
	"memra/tokenizer"
)

// decode reads JSON and refuses fields that the target does not know.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("more than one value in %s", text)
	}
}

func TestRunWritesTheAnswerOfTheOracleAndNothingElse(t *testing.T) {
	prompt := tinyGolden(t).Prompts[0]
	model := baseModel(t)
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	want := tok.Decode(prompt.Greedy)
	for _, args := range [][]string{{"--raw", prompt.Text}, {prompt.Text}, {"--raw", "-t", "1", "-ctk", "f32", prompt.Text}} {
		args = append([]string{"run", "-m", model, "-n", strconv.Itoa(len(prompt.Greedy))}, args...)
		if got := succeed(t, "", args...); got != want {
			t.Errorf("memra %q: %q, want %q", args, got, want)
		}
	}
	if got := succeed(t, prompt.Text+"\n", "run", "-m", model, "-n", "16", "--raw", "-"); got != want {
		t.Errorf("from standard input: %q, want %q", got, want)
	}
	file := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(file, []byte(prompt.Text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := succeed(t, "", "run", "-m", model, "-n", "16", "--raw", "-f", file); got != want {
		t.Errorf("from a file: %q, want %q", got, want)
	}
}

func TestRunSaysThatABaseModelContinuesText(t *testing.T) {
	if o := invoke(t, "", "run", "-m", baseModel(t), "-n", "1", "Hi"); o.status != 0 || strings.Count(o.err, "\n") != 1 || !strings.Contains(o.err, "no chat template") {
		t.Errorf("%+v", o)
	}
	if o := invoke(t, "", "run", "-m", baseModel(t), "-n", "1", "--raw", "Hi"); o.status != 0 || o.err != "" {
		t.Errorf("with --raw: %+v", o)
	}
}

func TestRunAsksThroughTheTemplate(t *testing.T) {
	model := chatModel(t)
	asked := succeed(t, "", "run", "-m", model, "-n", "12", "--system", "S", "Hi")
	written := succeed(t, "", "run", "-m", model, "-n", "12", "--raw", "system:S;user:Hi;>")
	if asked == "" || asked != written {
		t.Errorf("through the template %q, its text by hand %q", asked, written)
	}
}

func TestStatsGoToStandardError(t *testing.T) {
	o := invoke(t, "", "run", "-m", baseModel(t), "-n", "3", "--raw", "--stats", "Hi")
	for _, want := range []string{"prompt      2 tokens", "answer      3 tokens", "end: length", "tokens/s", "seed 0"} {
		if !strings.Contains(o.err, want) {
			t.Errorf("statistics lack %q: %s", want, o.err)
		}
	}
	if quiet := succeed(t, "", "run", "-m", baseModel(t), "-n", "3", "--raw", "Hi"); o.out != quiet {
		t.Errorf("standard output %q, without --stats %q", o.out, quiet)
	}
}

func TestSampledAnswersDependOnTheSeedAlone(t *testing.T) {
	model := baseModel(t)
	draw := func(args ...string) string {
		return succeed(t, "", append([]string{"run", "-m", model, "-n", "24", "--raw", "--temp", "3", "Hi"}, args...)...)
	}
	if a, b := draw("-s", "5"), draw("--seed", "5", "-t", "2"); a != b {
		t.Errorf("seed 5 gives %q and %q", a, b)
	}
	if a, b := draw("-s", "5"), draw("-s", "6"); a == b {
		t.Errorf("seeds 5 and 6 give the same %q", a)
	}
}

func TestTokenizeAgreesWithTheOracle(t *testing.T) {
	model := baseModel(t)
	for _, p := range tinyGolden(t).Prompts {
		var got struct {
			IDs    []int32
			Pieces []string
		}
		decode(t, succeed(t, p.Text, "tokenize", "-m", model, "-o", "json", "-"), &got)
		if !slices.Equal(got.IDs, p.Tokens) || len(got.Pieces) != len(p.Tokens) {
			t.Errorf("%q: %v, want %v", p.Text, got, p.Tokens)
		}
	}
}

func TestNoSpecialReadsPlainText(t *testing.T) {
	model := change(t, func(m *gguf.Metadata) { m.Set("tokenizer.ggml.add_bos_token", true) })
	var special, plain struct {
		IDs    []int32
		Pieces []string
	}
	decode(t, succeed(t, "", "tokenize", "-m", model, "-o", "json", "<|end|>"), &special)
	decode(t, succeed(t, "", "tokenize", "-m", model, "-o", "json", "--no-special", "<|end|>"), &plain)
	if want := []string{"<|start|>", "<|end|>"}; !slices.Equal(special.Pieces, want) {
		t.Errorf("pieces %q, want %q", special.Pieces, want)
	}
	if strings.Join(plain.Pieces, "") != "<|end|>" || len(plain.IDs) < 4 {
		t.Errorf("without special tokens %+v", plain)
	}
	if got, want := succeed(t, "", "tokenize", "-m", model, "--no-special", "a\n"), "\"a\"\n"; !strings.HasSuffix(strings.SplitAfter(got, "\n")[0], want) {
		t.Errorf("text output %q", got)
	}
}

// score is what memra score writes.
type score struct {
	Tokens []struct {
		ID      int32
		LogProb *float64
		Top     []struct {
			ID      int32
			LogProb float64
		}
	}
	Sum float64
}

func ids(tokens []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(tokens), " ", ","), "[]")
}

func TestScoresAreThoseOfTheModelBitForBit(t *testing.T) {
	model := baseModel(t)
	prompt := tinyGolden(t).Prompts[1]
	var got score
	decode(t, succeed(t, "", "score", "-m", model, "--top", "3", "--tokens", ids(prompt.Tokens)), &got)
	m, err := memra.Open(model, memra.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want, err := m.Score(context.Background(), prompt.Tokens, 3)
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for i, g := range got.Tokens {
		if g.ID != prompt.Tokens[i] || (i == 0) != (g.LogProb == nil) || (i > 0) != (len(g.Top) == 3) {
			t.Fatalf("token %d: %+v", i, g)
		}
		if i == 0 {
			continue
		}
		sum += *g.LogProb
		if *g.LogProb != float64(want[i].LogProb) || math.Abs(*g.LogProb-prompt.LogProbs[i-1]) > 0.5 {
			t.Errorf("token %d: %v, the model says %v, the oracle %v", i, *g.LogProb, want[i].LogProb, prompt.LogProbs[i-1])
		}
		for j, o := range g.Top {
			if o.ID != want[i].Top[j].Token || o.LogProb != float64(want[i].Top[j].LogProb) {
				t.Errorf("token %d, top %d: %v, want %v", i, j, o, want[i].Top[j])
			}
		}
	}
	if len(got.Tokens) != len(want) || got.Sum != sum {
		t.Errorf("%d tokens, sum %v; want %d, %v", len(got.Tokens), got.Sum, len(want), sum)
	}
	byText := succeed(t, prompt.Text, "score", "-m", model, "--top", "3", "-")
	if byTokens := succeed(t, "", "score", "-m", model, "--top", "3", "--tokens", ids(prompt.Tokens)); byText != byTokens {
		t.Error("a text and its tokens have different scores")
	}
}

func TestPerplexityIsThatOfTheScoresOfItsWindows(t *testing.T) {
	model := baseModel(t)
	text := tinyGolden(t).Prompts[2].Text
	const window = 16
	var got memra.Perplexity
	decode(t, succeed(t, text, "perplexity", "-m", model, "-c", strconv.Itoa(window), "-o", "json", "-f", "-"), &got)
	tokens := tinyGolden(t).Prompts[2].Tokens
	var sum float64
	scored := 0
	for ; len(tokens) >= window; tokens = tokens[window:] {
		var s score
		decode(t, succeed(t, "", "score", "-m", model, "--tokens", ids(tokens[:window])), &s)
		for _, tok := range s.Tokens[window/2+1:] { // the first of the second half is given
			sum -= *tok.LogProb
			scored++
		}
	}
	if want := math.Exp(sum / float64(scored)); got.Tokens != scored || got.Windows != scored/(window/2-1) || math.Abs(got.PPL/want-1) > 1e-12 {
		t.Errorf("%+v, want perplexity %v over %d tokens", got, want, scored)
	}
}

func TestPerplexityComparesModels(t *testing.T) {
	model, small := baseModel(t), filepath.Join(t.TempDir(), "small.gguf")
	succeed(t, "", "quantize", model, small, "Q4_0")
	text := tinyGolden(t).Prompts[2].Text
	var got struct {
		memra.Perplexity
		Compared []struct {
			Model string
			memra.Comparison
		}
	}
	decode(t, succeed(t, text, "perplexity", "-m", model, "--compare", model, "--compare", small, "-c", "16", "-o", "json", "-f", "-"), &got)
	var alone memra.Perplexity
	decode(t, succeed(t, text, "perplexity", "-m", small, "-c", "16", "-o", "json", "-f", "-"), &alone)
	if len(got.Compared) != 2 {
		t.Fatalf("found %+v, want two comparisons", got)
	}
	if self := got.Compared[0]; self.PPL != got.PPL || self.KL != 0 || self.SameTop != 1 || self.Model != model {
		t.Errorf("with itself: found %+v, want no difference", self)
	}
	if other := got.Compared[1]; other.PPL != alone.PPL || !(other.KL > 0) || other.SameTop > 1 {
		t.Errorf("with Q4_0: found %+v, want the perplexity %v that it has alone, and a divergence", other, alone.PPL)
	}
	// The divergence by hand, from the scores of whole vocabularies.
	var sum float64
	tokens, places := tinyGolden(t).Prompts[2].Tokens, 0
	for ; len(tokens) >= 16; tokens = tokens[16:] {
		var p, q score
		decode(t, succeed(t, "", "score", "-m", model, "--top", "1000", "--tokens", ids(tokens[:16])), &p)
		decode(t, succeed(t, "", "score", "-m", small, "--top", "1000", "--tokens", ids(tokens[:16])), &q)
		for i := 9; i < 16; i++ {
			other := map[int32]float64{}
			for _, c := range q.Tokens[i].Top {
				other[c.ID] = c.LogProb
			}
			for _, c := range p.Tokens[i].Top {
				sum += math.Exp(c.LogProb) * (c.LogProb - other[c.ID])
			}
			places++
		}
	}
	if want := sum / float64(places); math.Abs(got.Compared[1].KL/want-1) > 1e-6 {
		t.Errorf("found a divergence of %v, want %v", got.Compared[1].KL, want)
	}
}

func TestInspectShowsFilesThatNoFamilyCanRun(t *testing.T) {
	model := change(t, func(m *gguf.Metadata) {
		m.Set("general.architecture", "martian")
		m.Set("z.bytes", []uint8{1, 2, 255})
		m.Set("a.floats", []float32{0.1, float32(math.Inf(1))})
		m.Set("evil\x1b[31m", "red\x1b[31m")
		m.Set("deep", []any{[]int32{1}, []string{"x"}})
		m.Set("tokenizer.chat_template", "{{ x }}")
	})
	text := succeed(t, "", "inspect", "-o", "json", model)
	var got struct {
		Family            string
		Parameters, Bytes int
		Metadata          map[string]any
		Tensors           []memra.TensorInfo
		Template          string
	}
	decode(t, text, &got)
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got.Family != "martian" || got.Template != "{{ x }}" || len(got.Metadata) != f.Meta.Len() || len(got.Tensors) != len(f.Tensors) {
		t.Errorf("family %q, template %q, %d keys, %d tensors", got.Family, got.Template, len(got.Metadata), len(got.Tensors))
	}
	bytes := 0
	for i, tensor := range got.Tensors {
		w := f.Tensors[i]
		bytes += len(w.Data)
		if tensor.Name != w.Name || tensor.Type != w.Type.String() || !slices.Equal(tensor.Shape, w.Shape) || tensor.Bytes != len(w.Data) {
			t.Errorf("tensor %d: %+v", i, tensor)
		}
	}
	if got.Bytes != bytes {
		t.Errorf("%d bytes, want %d", got.Bytes, bytes)
	}
	for key, want := range map[string]any{
		"z.bytes": []any{1., 2., 255.}, "a.floats": []any{0.1, "+Inf"}, "deep": []any{[]any{1.}, []any{"x"}}, "evil\x1b[31m": "red\x1b[31m",
	} {
		if !reflect.DeepEqual(got.Metadata[key], want) {
			t.Errorf("%q is %v, want %v", key, got.Metadata[key], want)
		}
	}
	last := -1
	for key := range f.Meta.All() { // in the file's order
		quoted, _ := toJSON(key)
		at := strings.Index(text, "\n"+string(quoted)+": ")
		if at <= last {
			t.Errorf("%q is out of order", key)
		}
		last = at
	}

	human := succeed(t, "", "inspect", model)
	if strings.Contains(human, "\x1b") {
		t.Error("a file's escape sequences reach the terminal")
	}
	for _, want := range []string{"family", "martian", "tokenizer.ggml.tokens", "(263 in all)", "blk.0.attn_q.weight", "{{ x }}"} {
		if !strings.Contains(human, want) {
			t.Errorf("no %q in\n%s", want, human)
		}
	}
	if brief := succeed(t, "", "inspect", "--no-tensors", model); strings.Contains(brief, "blk.0") {
		t.Error("--no-tensors lists tensors")
	}
}

// llamaBenchFields are those of llama-bench's JSON that say something here.
var llamaBenchFields = []string{
	"build_commit", "cpu_info", "backends", "model_filename", "model_type", "model_size", "model_n_params", "n_threads", "type_k", "type_v",
	"n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts",
}

func TestBenchHasTheFieldsOfLlamaBench(t *testing.T) {
	model := baseModel(t)
	flags := []string{"bench", "-m", model, "-p", "4,8", "-n", "2", "-d", "0,5", "-t", "1", "-r", "3"}
	var rows []map[string]any
	decode(t, succeed(t, "", append(flags, "-o", "json")...), &rows)
	var tests []string
	for _, r := range rows {
		for _, name := range append(llamaBenchFields, "gpu_info", "floor_ts", "n_streams", "kernels", "read_bandwidth", "command") {
			if _, ok := r[name]; !ok {
				t.Errorf("no field %q", name)
			}
		}
		tests = append(tests, fmt.Sprint(r["n_prompt"], " ", r["n_gen"], " ", r["n_depth"]))
		samples := r["samples_ts"].([]any)
		var mean float64
		for _, s := range samples {
			mean += s.(float64) / 3
		}
		if len(samples) != 3 || math.Abs(mean/r["avg_ts"].(float64)-1) > 1e-9 || r["floor_ts"].(float64) <= 0 {
			t.Errorf("%v", r)
		}
	}
	if want := []string{"4 0 0", "8 0 0", "0 2 0", "4 0 5", "8 0 5", "0 2 5"}; !slices.Equal(tests, want) {
		t.Errorf("tests %q, want %q", tests, want)
	}
}

func TestBenchMeasuresStreamsOfAModelThatNoFileHas(t *testing.T) {
	var rows []benchRow
	decode(t, succeed(t, "", "bench", "--synthetic", "SmolLM2-135M", "--format", "Q4_0", "--device", "cpu", "-p", "0", "-n", "2", "-b", "1,3", "-r", "1", "-o", "json"), &rows)
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	for i, r := range rows {
		if streams := []int{1, 3}[i]; r.NStreams != streams || math.Abs(r.AvgTS*float64(r.AvgNS)/1e9/float64(2*streams)-1) > 1e-6 {
			t.Errorf("%+v", r)
		}
		if r.ModelFilename != "SmolLM2-135M Q4_0 (synthetic)" || r.ModelNParams != 134515008 || r.Backends != "CPU" || r.GPUInfo != "" {
			t.Errorf("%+v", r)
		}
	}
}

// A model whose file is not the golden's must fail, and nothing else.
func TestCheckFailsWithTheStatusOfAnError(t *testing.T) {
	model, goldens := baseModel(t), t.TempDir()
	golden, err := os.ReadFile("../../model/testdata/SmolLM2-135M-Instruct.Q4_1.golden.gz")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(goldens, "base.golden.gz"), golden, 0o600); err != nil {
		t.Fatal(err)
	}
	o := invoke(t, "", "check", "--quick", "--device", "cpu", "-m", model, "--goldens", goldens, "-s", "7", "-o", "json")
	var r checkReport
	decode(t, o.out, &r)
	if o.status != 1 || !strings.Contains(o.err, "1 of") || !strings.Contains(o.err, "--seed 7") {
		t.Errorf("status %d, %q", o.status, o.err)
	}
	if r.Class != "cpu" || r.Seed != 7 || !r.Quick || r.Failed != 1 || len(r.Checks) < 40 {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checks {
		if (c.Status == check.Failed) != (c.Name == "logits of base.gguf") {
			t.Errorf("%+v", c)
		}
	}
}

func TestAGPUThatIsNotThereIsAnErrorWhereItWasAskedFor(t *testing.T) {
	if err := cuda.Available(); err == nil {
		t.Skip("there is a GPU")
	}
	if o := invoke(t, "", "run", "-m", baseModel(t), "--device", "cuda", "--raw", "Hi"); o.status != 1 || !strings.Contains(o.err, "no GPU") {
		t.Errorf("%+v", o)
	}
	o := invoke(t, "", "run", "-v", "-m", baseModel(t), "-n", "1", "--raw", "Hi")
	if o.status != 0 || strings.Count(o.err, "computing on the CPU") != 1 {
		t.Errorf("%+v", o)
	}
}

func TestBenchLeavesOutTestsOfNoTokens(t *testing.T) {
	c := benchCommand{prompts: numbers{value: []int{0}}, generates: numbers{value: []int{0, 2}}, depths: numbers{value: []int{0, 7}}, streams: numbers{value: []int{1, 3}}}
	if got, want := c.tests(), []memra.BenchTest{{Generate: 2, Streams: 1}, {Generate: 2, Streams: 3}, {Generate: 2, Depth: 7, Streams: 1}, {Generate: 2, Depth: 7, Streams: 3}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBenchTablesSayTheSame(t *testing.T) {
	facts := memra.Facts{File: "m.gguf", Family: "llama", Format: "Q4_1", Bytes: 96576768, Parameters: 134515008, Threads: 2, Class: "cpu", CPU: "a CPU"}
	rows := []benchRow{
		newBenchRow(facts, "f16", time.Unix(0, 0), 1e9, memra.BenchResult{BenchTest: memra.BenchTest{Prompt: 512}, Floor: 5000,
			Samples: []time.Duration{time.Second, 2 * time.Second}}),
		newBenchRow(facts, "f16", time.Unix(0, 0), 1e9, memra.BenchResult{BenchTest: memra.BenchTest{Generate: 128, Depth: 4096, Streams: 3}, Floor: 150.5, Kernels: 244,
			Samples: []time.Duration{time.Second}}),
	}
	write := func(format string) string {
		var b strings.Builder
		table := newBenchTable(format, &b)
		for _, r := range rows {
			if err := table.row(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.end(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	lines := strings.Split(write("md"), "\n")
	for i, want := range [][]string{
		0: {"model", "size", "params", "backend", "threads", "test", "t/s", "floor t/s", "kernels"},
		2: {"llama 135M Q4_1", "92.10 MiB", "134.52 M", "CPU", "2", "pp512", "384.00 ± 181.02", "5000.00", "0"},
		3: {"llama 135M Q4_1", "92.10 MiB", "134.52 M", "CPU", "2", "tg128 x3 @ d4096", "384.00 ± 0.00", "150.50", "244"},
	} {
		if want != nil && !slices.Equal(cells(lines[i]), want) {
			t.Errorf("line %d: %q, want %q", i, cells(lines[i]), want)
		}
	}
	var array []benchRow
	decode(t, write("json"), &array)
	if !reflect.DeepEqual(array, rows) {
		t.Errorf("json: %+v, want %+v", array, rows)
	}
	for i, line := range slices.Collect(strings.Lines(write("jsonl"))) {
		var row benchRow
		if decode(t, line, &row); !reflect.DeepEqual(row, rows[i]) {
			t.Errorf("jsonl %d: %+v", i, row)
		}
	}
	records, err := csv.NewReader(strings.NewReader(write("csv"))).ReadAll()
	if err != nil || len(records) != 3 || records[0][0] != "build_commit" || records[2][slices.Index(records[0], "n_depth")] != "4096" {
		t.Errorf("csv: %v, %q", err, records)
	}
	if rows[0].AvgNS != 1.5e9 || rows[0].StddevNS != 707106781 || rows[0].TestTime != "1970-01-01T00:00:00Z" {
		t.Errorf("%+v", rows[0])
	}
}

func cells(row string) (words []string) {
	for cell := range strings.SplitSeq(strings.Trim(row, "|"), "|") {
		words = append(words, strings.TrimSpace(cell))
	}
	return words
}

func TestVersionNamesTheToolchain(t *testing.T) {
	var b build
	decode(t, succeed(t, "", "version", "-o", "json"), &b)
	if b != readBuild() || !strings.HasPrefix(b.Go, "go1.") {
		t.Errorf("%+v", b)
	}
	if text := succeed(t, "", "version"); !strings.HasPrefix(text, "memra ") || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

func TestHelpShowsExamplesThatParse(t *testing.T) {
	root := newRoot(&app{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	for _, cmd := range append(root.Commands(), root) {
		help := succeed(t, "", append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if cmd.Example == "" || !strings.Contains(help, cmd.Example) {
			t.Errorf("%s --help has no examples", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			_, line, _ = strings.Cut(line, "memra ")
			if line, _, _ = strings.Cut(line, " | "); cmd != root {
				parses(t, cmd, rewrite(strings.Fields(line)[1:]))
			}
		}
	}
}

func parses(t *testing.T, cmd *cobra.Command, words []string) {
	t.Helper()
	if err := cmd.ParseFlags(words); err != nil {
		t.Errorf("%s: example %q: %v", cmd.Name(), words, err)
	}
}

func TestCompletionOffersFlagValues(t *testing.T) {
	if out := succeed(t, "", "__complete", "bench", "-o", ""); !strings.Contains(out, "jsonl\n") {
		t.Errorf("%q", out)
	}
	for flag, want := range map[string]string{"--device": "cuda:0\n", "--synthetic": "Gemma-3-27B\n", "--format": "Q4_K_M\n"} {
		if out := succeed(t, "", "__complete", "bench", flag, ""); !strings.Contains(out, want) {
			t.Errorf("%s: %q", flag, out)
		}
	}
	if out := succeed(t, "", "completion", "bash"); !strings.Contains(out, "memra") {
		t.Error("no script for bash")
	}
}

func TestVerboseLogsToStandardError(t *testing.T) {
	o := invoke(t, "", "run", "-v", "-m", baseModel(t), "-n", "1", "--raw", "Hi")
	if !strings.Contains(o.err, "level=DEBUG") || !strings.Contains(o.err, "family=llama") || strings.Contains(o.out, "level") {
		t.Errorf("%+v", o)
	}
}

func TestInspectChecksAFile(t *testing.T) {
	var report struct {
		Check *memra.Verified
	}
	if err := json.Unmarshal([]byte(succeed(t, "", "inspect", "--check", "-o", "json", baseModel(t))), &report); err != nil {
		t.Fatal(err)
	}
	if report.Check == nil || len(report.Check.Faults) != 0 || len(report.Check.SHA256) != 64 {
		t.Errorf("found %+v, want no faults and a hash", report.Check)
	}
	if text := succeed(t, "", "inspect", "--check", baseModel(t)); !strings.Contains(text, report.Check.SHA256) {
		t.Errorf("the text lacks the hash: %s", text)
	}
	f, err := gguf.Open(baseModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Meta.Set("llama.block_count", uint32(4))
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	if err := gguf.Write(broken, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	o := invoke(t, "", "inspect", "--check", broken)
	if o.status != 1 || !strings.Contains(o.err, "blk.3.attn_q.weight") || !strings.Contains(o.out, "SHA-256") {
		t.Errorf("status %d, %q, want the missing tensors and a report", o.status, o.err)
	}
}
