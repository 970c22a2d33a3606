package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
	"memra/sample"
	"memra/state"
	"memra/state/disk"
)

// process is an idle engine whose prefixes outlive it in a folder; end is its end.
func process(t *testing.T, d compute.Device, m *model.Model, path string) (e *Engine, end func()) {
	t.Helper()
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: 2000, Sequences: 2, Step: 128, Snapshots: 4})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := disk.Open(path, 1<<30, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	tree := state.NewTree(pool)
	tree.Spill(folder, "tiny")
	e = idle(Config{Device: d, Model: m, Pool: pool, Prefixes: tree, Rows: 128, Asking: 8, Sequences: 2, Context: 2000})
	return e, func() {
		e.end()
		e.deliver()
		e.readers.Wait()
		folder.Close()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
}

// answer has an idle engine answer a request.
func (e *Engine) answer(t *testing.T, r Request) *Answer {
	t.Helper()
	a, err := newAnswer(e, &r)
	if err != nil {
		t.Fatal(err)
	}
	e.take(a)
	for a.err == nil && a.left > 0 {
		e.read()
		if !e.step(time.Since) {
			e.readers.Wait()
		}
	}
	return a
}

// A conversation that goes on in another process computes what is new there, and says what it says in a process that has seen none of it.
func TestARestartedEngineGoesOnWhereItsForerunnerEnded(t *testing.T) {
	d := processor(t, 1)
	for name, src := range map[string]model.Source{"llama": tiny.Llama(1, gguf.Q8_0), "gemma3": tiny.Gemma3(1, gguf.Q8_0), "qwen35": tiny.Qwen35(1, gguf.Q8_0), "gpt-oss": tiny.GPTOSS(1, gguf.Q8_0)} {
		t.Run(name, func(t *testing.T) {
			m, err := model.Open(src, d)
			if err != nil {
				t.Fatal(err)
			}
			path := t.TempDir()
			r := Request{Tokens: random(5, 333), Limit: 77, Draw: sample.Draw{LogProb: true, Params: sample.Params{Temperature: 1, Seed: 3}}}
			for turn := range 3 {
				e, end := process(t, d, m, path)
				got := e.answer(t, r)
				want := 0
				if turn > 0 {
					want = len(r.Tokens) - 21 // the last token of the answer before, which has not been computed, and the message
				}
				if u := got.Usage(0); u.Cached != want {
					t.Errorf("turn %d: %d of %d tokens are cached (%s), want %d", turn, u.Cached, u.Given, u.Miss, want)
				}
				cold, endCold := process(t, d, m, t.TempDir())
				if diff := differ(got.queue, cold.answer(t, r).queue, false); diff != "" {
					t.Errorf("turn %d, warm: %s", turn, diff)
				}
				end()
				endCold()
				r.Tokens = slices.Concat(r.Tokens, tokens(got.queue, 0), random(uint64(turn), 20))
			}
		})
	}
}

func TestARequestCanBeCancelledWhileItsPrefixIsRead(t *testing.T) {
	d := processor(t, 1)
	m, err := model.Open(tiny.Llama(1, gguf.Q8_0), d)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	r := Request{Tokens: random(5, 333), Limit: 3}
	e, end := process(t, d, m, path)
	e.answer(t, r)
	end()
	e, end = process(t, d, m, path)
	var all []*Answer
	for range 3 {
		a, err := newAnswer(e, &r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		e.take(a)
	}
	if len(e.fetching) != 3 {
		t.Fatalf("%d requests wait for the disk, want 3", len(e.fetching))
	}
	e.drop(all[0], context.Canceled)
	e.readers.Wait()
	e.drop(all[1], context.Canceled) // what was read waits to be heard
	e.read()
	if n := len(e.scheduler.waiting); n != 1 {
		t.Errorf("%d requests have come to the scheduler, want 1", n)
	}
	for i, want := range []error{context.Canceled, context.Canceled, ErrClosed} {
		if i == 2 {
			end()
		}
		if !errors.Is(all[i].err, want) {
			t.Errorf("request %d ends with %v, want %v", i, all[i].err, want)
		}
	}
}
