package memra

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/devices"
	"memra/internal/overlap"
	"memra/sample"
)

// small is a CPU with the manners of a small GPU: what is reserved is taken at once, and steps take memory by their rows.
type small struct {
	*cpu.Device
	free, perRow int
	work         int // taken by steps
	pages        int // of the cache that was made last
}

func (s *small) Class() string { return "small" }
func (s *small) Step() int     { return 1024 }
func (s *small) Memory() (compute.Memory, error) {
	return compute.Memory{Free: s.free, Total: 1 << 30}, nil
}

func (s *small) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	if need := pages * shape.PageBytes(); need > s.free {
		return nil, fmt.Errorf("small: %d of %d bytes: %w", need, s.free, compute.ErrMemory)
	}
	m, err := s.Device.NewKV(shape, pages)
	s.pages = pages
	s.free -= pages * shape.PageBytes()
	return &smallKV{m, s}, err
}

type smallKV struct {
	compute.KVMemory
	device *small
}

func (m *smallKV) Close() error {
	m.device.free += m.Pages() * m.Shape().PageBytes()
	return m.KVMemory.Close()
}

// Sample wants the memory of as many rows as the cache has places, once.
func (s *small) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	if more := s.pages*compute.Page*s.perRow - s.work; more > 0 && s.work == 0 {
		if more > s.free {
			return nil, fmt.Errorf("small: a step's tensors: %w", compute.ErrMemory)
		}
		s.free, s.work = s.free-more, s.work+more
	}
	return s.Device.Sample(func(ops compute.Ops) compute.Tensor { return forward(plainKV{ops}) }, draws)
}

// plainKV gives operations the memory that they know.
type plainKV struct{ compute.Ops }

func (o plainKV) AppendKV(b *compute.Batch, kv compute.KV, k, v compute.Tensor) {
	kv.Memory = kv.Memory.(*smallKV).KVMemory
	o.Ops.AppendKV(b, kv, k, v)
}

func (o plainKV) Attention(b *compute.Batch, q compute.Tensor, kv compute.KV, a compute.Attn) compute.Tensor {
	kv.Memory = kv.Memory.(*smallKV).KVMemory
	return o.Ops.Attention(b, q, kv, a)
}

// longModel is a tiny model that was made for a million tokens.
func longModel(t *testing.T) string {
	t.Helper()
	f, err := gguf.Open(tinyModel(t, "llama-plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Meta.Set("llama.context_length", uint32(1<<20))
	path := filepath.Join(t.TempDir(), "long.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

func openSmall(t *testing.T, path string, free, perRow int, o Options) (*Model, *small, string, error) {
	t.Helper()
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := &small{free: free, perRow: perRow}
	o.open = func(string, devices.Options) (_ compute.Device, err error) {
		s.Device, err = cpu.Open(1)
		return s, err
	}
	m, err := Open(path, o)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, s, log.String(), err
}

func TestTheContextIsWhatFitsTheDevice(t *testing.T) {
	path := longModel(t)
	const free, perRow, step = 500 << 20, 10000, 1024
	whole, _, _, err := openSmall(t, path, 1<<40, 0, Options{Sequences: 1})
	if err != nil {
		t.Fatal(err)
	}
	layout := whole.model.State()
	for _, c := range []struct {
		name    string
		o       Options
		context int    // 0: an error; -1: less than the model's
		all     bool   // of the memory is taken
		log     string // words
		err     string
	}{
		{"what was asked for and fits", Options{Context: 5000, Sequences: 2}, 5000, false, "", ""},
		{"what was asked for and fits once", Options{Context: 1 << 17, Sequences: 8}, 1 << 17, true, "", ""},
		{"what the model was made for and does not fit", Options{Sequences: 2}, -1, true, "context smaller 1048576 sequences=2", ""},
		{"what was asked for and does not fit", Options{Context: 1 << 20, Sequences: 2}, 0, false, "", "1048576 tokens, with 2 sequences"},
		{"a cache of a size", Options{Context: 5000, Sequences: 100, KVMemory: 40 << 20}, 5000, false, "", ""},
		{"a cache larger than the device", Options{KVMemory: 1 << 30}, 0, false, "", "1073741824 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s, log, err := openSmall(t, path, free, perRow, c.o)
			if c.context == 0 {
				need := layout.Bytes(whole.config(1<<20, 2)) // one context
				whole.sequences = 2
				fit := whole.largest(1<<20, free-(step+compute.Page)*perRow-spare)
				words := []string{c.err}
				if c.o.Context > 0 {
					words = []string{c.err, fmt.Sprint(need), fmt.Sprint(fit, " tokens would fit"), "fewer sequences"}
				}
				for _, word := range words {
					if err == nil || !strings.Contains(err.Error(), word) {
						t.Errorf("error %v, want one with %q", err, word)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.context > 0 && m.Context() != c.context {
				t.Errorf("context %d, want %d", m.Context(), c.context)
			}
			page := layout.Bytes(m.config(compute.Page, 2)) - layout.Bytes(m.config(0, 2))
			if c.all && (s.free < spare || s.free-page >= spare) { // a page more does not fit
				t.Errorf("context %d leaves %d bytes, want %d and less than a page of %d", m.Context(), s.free, spare, page)
			}
			if !c.all && c.o.KVMemory == 0 && m.pool.Bytes() != layout.Bytes(m.config(c.o.Context*c.o.Sequences, c.o.Sequences)) {
				t.Errorf("the pool takes %d bytes, want as many as a context for each sequence", m.pool.Bytes())
			}
			if c.o.KVMemory > 0 && (m.pool.Bytes() > c.o.KVMemory || m.pool.Bytes()+page <= c.o.KVMemory) {
				t.Errorf("the pool takes %d bytes, want %d and less than a page of %d", m.pool.Bytes(), c.o.KVMemory, page)
			}
			for _, word := range strings.Fields(c.log) {
				if !strings.Contains(log, word) {
					t.Errorf("log %q does not say %q", log, word)
				}
			}
			if (c.log == "") != (log == "") {
				t.Errorf("log %q", log)
			}
			if _, tokens, _ := collect(t, m, Request{Prompt: "Hi", MaxTokens: 3}); len(tokens) != 3 {
				t.Errorf("%d tokens", len(tokens))
			}
		})
	}
}

// The windows of a model's layers are memory of each sequence's own.
func TestFewerSequencesAreComputedAtOnceWhereTheContextFitsThen(t *testing.T) {
	path := tinyModel(t, "gemma3-plain")
	whole, _, _, err := openSmall(t, path, 1<<40, 0, Options{Context: 4096, Sequences: 64})
	if err != nil {
		t.Fatal(err)
	}
	ten := whole.model.State().Bytes(whole.config(4096, 10))
	m, _, log, err := openSmall(t, path, spare+ten, 0, Options{Context: 4096, Sequences: 64})
	if err != nil {
		t.Fatal(err)
	}
	if m.sequences != 8 || m.Context() != 4096 || !strings.Contains(log, "sequences=8 asked=64") {
		t.Errorf("%d sequences, a context of %d, %q: want 8 of 4096", m.sequences, m.Context(), log)
	}
	if answers, err := m.Answers(t.Context(), Request{Prompt: "Hi", MaxTokens: 3, N: 5}); err != nil || len(answers) != 5 {
		t.Errorf("%v, %v", answers, err)
	}
}

func TestStepsBecomeSmallerWhereTheirTensorsDoNotFit(t *testing.T) {
	path := longModel(t)
	m, _, _, err := openSmall(t, path, 900<<20, 1<<20, Options{Context: 4096, Sequences: 1})
	if err != nil {
		t.Fatal(err)
	}
	if m.step != 512 { // 512 rows and a spare page take 576 MiB
		t.Errorf("steps of %d rows, want 512", m.step)
	}
	_, _, _, err = openSmall(t, path, 600<<20, 1<<28, Options{Context: 4096})
	if !errors.Is(err, compute.ErrMemory) {
		t.Errorf("error %v, want one of memory", err)
	}
}

func TestStepsAreNotLongerThanTheContextsOfAllSequences(t *testing.T) {
	for _, c := range []struct{ context, sequences, step int }{{100, 1, 128}, {100, 4, 448}, {1000, 4, 1024}} {
		m, _, _, err := openSmall(t, longModel(t), 16<<30, 1, Options{Context: c.context, Sequences: c.sequences})
		if err != nil {
			t.Fatal(err)
		}
		if m.step != c.step || m.Context() != c.context {
			t.Errorf("%d sequences of %d tokens: steps of %d rows and a context of %d, want %d rows", c.sequences, c.context, m.step, m.Context(), c.step)
		}
	}
}

func TestAStepHasLogitsForEverySequence(t *testing.T) {
	m, _, _, err := openSmall(t, longModel(t), 16<<30, 1, Options{Context: 2, Sequences: 60})
	if err != nil {
		t.Fatal(err)
	}
	m.model.Vocab = 1 << 20 // of which 128 rows' share is 4 rows
	if m.logitRows() != 60 {
		t.Errorf("steps of %d rows have logits of %d, want of 60 sequences", m.step, m.logitRows())
	}
}

func TestWeightsThatDoNotFitAreRefusedBeforeTheyAreRead(t *testing.T) {
	path := longModel(t)
	_, _, _, err := openSmall(t, path, 1000, 0, Options{})
	for _, word := range []string{path, "bytes of weights", "1000 of 1073741824", "smaller model or format"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want one with %q", err, word)
		}
	}
}

func TestASyntheticModelThatDoesNotFitNamesWhatWould(t *testing.T) {
	o := Options{open: func(string, devices.Options) (compute.Device, error) {
		d, err := cpu.Open(1)
		return &small{Device: d, free: 9 << 30}, err
	}}
	_, err := OpenSynthetic("Llama-3.1-8B", "BF16", o)
	for _, word := range []string{"Llama-3.1-8B BF16", "16061054976 bytes of weights", "9663676416 of", "what would fit: Q8_0 (8532934656 bytes), Q4_K_M ("} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want one with %q", err, word)
		}
	}
	if strings.Contains(fmt.Sprint(err), "F16 (1") {
		t.Errorf("%v", err)
	}
	if _, err = OpenSynthetic("Gemma-3-27B", "Q8_0", o); err == nil || !strings.Contains(err.Error(), "no format of it would fit") {
		t.Errorf("error %v", err)
	}
}

func TestStreamsOfABenchmarkComputeWhatEachAloneWould(t *testing.T) {
	under := &overlap.Device{} // takes a step in while one runs
	m := openTiny(t, "gemma3-plain", Options{Sequences: 3, Context: 200, open: func(string, devices.Options) (compute.Device, error) {
		d, err := cpu.Open(0)
		under.Device = d
		return under, err
	}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(m.between(func() error {
		run := &benchRun{m: &m.machine, test: BenchTest{Generate: 90, Depth: 100, Streams: 3}, rng: newBenchRand()}
		for range 2 { // the second begins with what the first has left, where a windowed layer still has it
			if _, err := run.once(t.Context()); err != nil {
				return err
			}
			for i, s := range run.sequences {
				if len(s.tokens) != 190 || s.state.Len() != 190 {
					t.Errorf("stream %d has %d tokens and %d positions, want 190", i, len(s.tokens), s.state.Len())
				}
			}
			if under.Ahead == 0 || under.Ahead%89 != 0 || under.Disorder > 0 || under.Begun != under.Waited {
				t.Errorf("%d of %d steps were begun ahead, want 89 of 90; %d out of turn; %d waited for", under.Ahead, under.Begun, under.Disorder, under.Waited)
			}
		}
		everything := []sample.Draw{{LogProb: true, Top: sample.MaxTop}} // at most 1024 tokens: all of the vocabulary
		last := func(s *sequence, tokens []int32) (pick sample.Pick) {
			must(s.feed(t.Context(), tokens, len(tokens)-1, func(b *compute.Batch, _ int) error {
				picks, err := m.run(b, everything[:len(b.Logits)], s.state)
				pick = picks[0]
				return err
			}))
			return pick
		}
		stream := run.sequences[1]
		tokens := slices.Clone(stream.tokens)
		stream.cut(189)
		got := last(stream, tokens[189:])
		run.release()
		alone := m.newSequence()
		defer alone.state.Free()
		if want := last(alone, tokens); got.Token != want.Token || len(want.Top) != m.model.Vocab || !slices.Equal(got.Top, want.Top) {
			t.Errorf("log-probabilities %v, alone %v", got.Top, want.Top)
		}
		return nil
	}))
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Sequences: 2, Device: "cpu"})
	for _, c := range []struct {
		test        BenchTest
		repetitions int
		want        string
	}{
		{BenchTest{}, 1, "one of the two must be positive"},
		{BenchTest{Prompt: 3, Generate: 3}, 1, "one of the two"},
		{BenchTest{Prompt: 3, Streams: 2}, 1, "want one for a prompt"},
		{BenchTest{Generate: 3, Streams: 3}, 1, "opened for 2 sequences"},
		{BenchTest{Generate: 3}, 0, "at least one repetition"},
	} {
		if _, err := m.Bench(t.Context(), c.test, c.repetitions, 1e9); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.test, err, c.want)
		}
	}
	r, err := m.Bench(t.Context(), BenchTest{Generate: 4, Depth: 5, Streams: 2}, 2, 1e9)
	if err != nil || len(r.Samples) != 2 || math.Abs(r.Rate(r.Samples[0])*r.Samples[0].Seconds()-8) > 1e-9 {
		t.Errorf("%+v, %v", r, err)
	}
	want := 4 * m.model.Bytes
	for i := range 4 {
		for _, l := range m.model.State() {
			want += 2 * (5 + i + 1) * 2 * 2 * l.Heads * l.HeadDim
		}
	}
	if floor := 8 / (float64(want) / 1e9); r.Floor != floor {
		t.Errorf("floor %v, want %v", r.Floor, floor)
	}
}

func TestAPromptIsCutIntoAsFewStepsAsItFits(t *testing.T) {
	var rows []int
	m, err := Open(longModel(t), Options{Context: 600, open: func(string, devices.Options) (compute.Device, error) {
		d, err := cpu.Open(1)
		return countRows{d, func(n int) { rows = append(rows, n) }}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	collect(t, m, Request{Tokens: make([]int32, 512), MaxTokens: 2})
	if fmt.Sprint(rows) != "[256 256 1]" {
		t.Errorf("steps of %v rows, want 256 and 256 for the prompt, and 1", rows)
	}
}

// countRows tells the rows of every step.
type countRows struct {
	*cpu.Device
	step func(rows int)
}

func (c countRows) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	return c.Device.Sample(func(ops compute.Ops) compute.Tensor { return forward(countingOps{ops, c.step}) }, draws)
}

type countingOps struct {
	compute.Ops
	step func(rows int)
}

func (c countingOps) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	c.step(b.Rows())
	return c.Ops.Embed(b, w, scale)
}
