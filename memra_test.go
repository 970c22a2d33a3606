package memra

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/devices"
	"memra/internal/golden"
	"memra/sample"
)

// tinyModel writes one of the oracle's tiny models to a file.
func tinyModel(t testing.TB, name string) string {
	t.Helper()
	g, err := golden.LoadTiny(filepath.Join("model/testdata/tiny", name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := os.WriteFile(path, g.GGUF, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func openTiny(t testing.TB, name string, o Options) *Model {
	t.Helper()
	m, err := Open(tinyModel(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// collect runs a request to its end.
func collect(t testing.TB, m *Model, r Request) (text string, tokens []Token, done *Done) {
	t.Helper()
	for c, err := range m.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		text += c.Text
		if c.Token != nil {
			tokens = append(tokens, *c.Token)
		}
		done = c.Done
	}
	return text, tokens, done
}

func TestScoreGivesWhatGenerateGave(t *testing.T) {
	for _, name := range []string{"llama-plain", "gemma3-plain"} {
		for _, temperature := range []float32{0, 0.8} {
			m := openTiny(t, name, Options{})
			prompt := m.Tokenize("Then the thin rain ended.")
			_, tokens, _ := collect(t, m, Request{Tokens: prompt, MaxTokens: 60, LogProbs: true, TopLogProbs: 3,
				Sampling: sample.Params{Temperature: temperature, Seed: 5}})
			all := slices.Clone(prompt)
			for _, token := range tokens {
				all = append(all, token.ID)
			}
			scored, err := m.Score(t.Context(), all, 3)
			if err != nil {
				t.Fatal(err)
			}
			for i, token := range tokens {
				got := scored[len(prompt)+i]
				if math.Float32bits(got.LogProb) != math.Float32bits(token.LogProb) || !slices.Equal(got.Top, token.Top) {
					t.Fatalf("%s at temperature %v: token %d scores %v %v, generated with %v %v", name, temperature, i, got.LogProb, got.Top, token.LogProb, token.Top)
				}
			}
		}
	}
}

func TestThreadsAndStepsDoNotChangeATokenOrBit(t *testing.T) {
	r := Request{Prompt: "In the morning the others went in", MaxTokens: 40, LogProbs: true, Sampling: sample.Params{Temperature: 1, Seed: 9}}
	_, want, _ := collect(t, openTiny(t, "llama-plain", Options{Threads: 1}), r)
	for _, threads := range []int{2, 3, 8} {
		m := openTiny(t, "llama-plain", Options{open: func(string, devices.Options) (compute.Device, error) {
			d, err := cpu.Open(threads)
			return stepping{d, threads}, err // cuts the prompt elsewhere
		}})
		if _, got, _ := collect(t, m, r); !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID && a.LogProb == b.LogProb }) {
			t.Errorf("%d threads, steps of %d rows: %v, want %v", threads, threads, got, want)
		}
	}
}

// stepping is a CPU that wants steps of so many rows.
type stepping struct {
	*cpu.Device
	step int
}

func (s stepping) Step() int { return s.step }

func TestGenerateStopsWhereItIsTold(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	text, tokens, done := collect(t, m, Request{Prompt: "Hi", MaxTokens: 12})
	if done.Reason != "length" || done.Tokens != 12 || len(tokens) != 12 {
		t.Fatalf("12 tokens asked: %d, %+v", len(tokens), done)
	}
	cut := len(text) / 2
	for !strings.Contains(text, text[cut:cut+2]) || text[cut]&0xC0 == 0x80 {
		cut++
	}
	stop := text[cut : cut+2]
	short, _, done := collect(t, m, Request{Prompt: "Hi", MaxTokens: 12, Stop: []string{stop}})
	if want := text[:strings.Index(text, stop)]; short != want || done.Reason != "stop" {
		t.Errorf("stop at %q of %q: got %q (%s), want %q", stop, text, short, done.Reason, want)
	}
}

func TestAnswersEndWithTheContext(t *testing.T) {
	m := openTiny(t, "gemma3-plain", Options{Context: 64})
	_, tokens, done := collect(t, m, Request{Prompt: "Then the thin rain"})
	if done.Reason == "length" && done.Prompt+len(tokens) != 64 {
		t.Errorf("%d tokens given and %d generated, want 64 in all", done.Prompt, len(tokens))
	}
}

func TestCancelledAndBrokenOffGenerationsGiveTheirMemoryBack(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Sequences: 1})
	for range 3 { // with one sequence, the second round would wait for ever for a lost one
		for c, err := range m.Generate(t.Context(), Request{Prompt: "Hi"}) {
			if err != nil || c.Token != nil {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for c, err := range m.Generate(ctx, Request{Prompt: "Hi"}) {
			if last = err; c.Token != nil {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("a cancelled generation ends with %v, want context.Canceled", last)
		}
		cancel()
	}
	if err := m.between(func() error {
		if free, all := m.pool.Free(), m.pool.Total(); !all.Within(free) { // pages that are kept for others count as free
			t.Errorf("%v pages of the KV cache are free, want all of %v", free, all)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestGenerationsSideBySideDoNotMix(t *testing.T) {
	m := openTiny(t, "gemma3-plain", Options{Sequences: 3})
	prompts := []string{"Hi", "Then the thin rain ended.", "In the morning", "a", "no boat"}
	alone := make([]string, len(prompts))
	for i, p := range prompts {
		alone[i], _, _ = collect(t, m, Request{Prompt: p, MaxTokens: 30})
	}
	results := make(chan [2]string)
	for i, p := range prompts {
		go func() {
			var text strings.Builder
			for c, err := range m.Generate(context.Background(), Request{Prompt: p, MaxTokens: 30}) {
				if err != nil {
					text.WriteString(err.Error())
				}
				text.WriteString(c.Text)
			}
			results <- [2]string{text.String(), alone[i]}
		}()
	}
	for range prompts {
		if r := <-results; r[0] != r[1] {
			t.Errorf("beside others %q, alone %q", r[0], r[1])
		}
	}
}

func TestClosedModelSaysSo(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Score(t.Context(), []int32{1, 2}, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestBrokenTemplateStopsConversationsOnly(t *testing.T) {
	f, err := gguf.Open(tinyModel(t, "llama-plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Meta.Set("tokenizer.chat_template", "{% for m in messages %}\n{{ m.content ")
	path := filepath.Join(t.TempDir(), "broken.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, tokens, _ := collect(t, m, Request{Prompt: "Hi", MaxTokens: 3}); len(tokens) != 3 {
		t.Errorf("a plain prompt gives %d tokens, want 3", len(tokens))
	}
	if _, err := m.Chat(); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a conversation gives %v, want the template's fault with its line", err)
	}
}
