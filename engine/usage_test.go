package engine

import (
	"testing"
	"time"

	"memra/gguf"
	"memra/internal/tiny"
	"memra/sample"
)

func TestUsageSaysHowLongThePromptAndTheAnswerTook(t *testing.T) {
	const nap = 20 * time.Millisecond
	d := &faulty{Device: processor(t, 1), step: func([]sample.Draw) error {
		time.Sleep(nap)
		return nil
	}}
	e := open(t, d, tiny.Llama(1, gguf.Q8_0), sizes{rows: 64, asking: 8, sequences: 1, positions: 640, slots: 2})
	read := func(a *Answer) Usage {
		for {
			event, err := a.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if event.Done != nil {
				return event.Done.Usage
			}
		}
	}
	first := submit(t, e, Request{Tokens: make([]int32, 100), Limit: 4})
	second := submit(t, e, Request{Tokens: make([]int32, 10), Limit: 2})
	u := read(first)
	if u.Prefill < 2*nap || u.Decode < 3*nap {
		t.Errorf("a prompt of two steps took %v, and three more tokens %v; a step takes %v", u.Prefill, u.Decode, nap)
	}
	if u := read(second); u.Queued < 4*nap || u.Prefill < nap {
		t.Errorf("what waited for the other waited %v, and its prompt took %v", u.Queued, u.Prefill)
	}
}
