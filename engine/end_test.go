package engine

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
	"memra/sample"
)

func TestOneAnswerOfSeveralEndsAndTheOthersGoOn(t *testing.T) {
	d := processor(t, 2)
	m, err := model.Open(tiny.Qwen35(1, gguf.Q8_0), d)
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Tokens: []int32{1, 2, 3, 4, 5}, Limit: 40, N: 3, Draw: sample.Draw{Params: sample.Params{Temperature: 1, Seed: 5}}}
	read := func(end int) (tokens [3][]int32, reasons [3]string) {
		e, finish := subject{device: d, Model: m}.idle(roomy, nil)
		a, err := newAnswer(e, &r)
		if err != nil {
			t.Fatal(err)
		}
		e.scheduler.add(a)
		for e.step(time.Since) { // what it says is heard, and done, before the next
			for len(a.queue) > 0 {
				event, err := a.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if event.Done != nil {
					reasons[event.Index] = event.Done.Reason
					continue
				}
				tokens[event.Index] = append(tokens[event.Index], event.Token)
				if event.Index == end && len(tokens[end]) == 3 {
					a.End(end)
				}
			}
			e.read()
		}
		for len(a.queue) > 0 {
			if event, err := a.Next(t.Context()); err != nil || event.Done == nil {
				t.Fatalf("after the last step comes %+v, %v", event, err)
			} else {
				reasons[event.Index] = event.Done.Reason
			}
		}
		if _, err := a.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("all answers have ended, and the next event's error is %v", err)
		}
		if err := finish(); err != nil {
			t.Error(err)
		}
		return tokens, reasons
	}
	want, _ := read(-1)
	for end := range 3 { // the first computes the prompt from which the others fork
		got, reasons := read(end)
		for i := range 3 {
			n := 40
			if i == end {
				if n = 3; reasons[i] != Stop {
					t.Errorf("answer %d has %d tokens and the reason %q, was to end after 3", i, len(got[i]), reasons[i])
				}
			}
			if !slices.Equal(got[i], want[i][:n]) {
				t.Errorf("with answer %d ended, answer %d says %v, want %v", end, i, got[i], want[i][:n])
			}
		}
	}
	a := submit(t, start(t, d, m, roomy), r)
	for range 3 {
		for i := range 3 {
			a.End(i) // perhaps before it has begun, and more than once
		}
	}
	for range 3 {
		if event, err := a.Next(t.Context()); err != nil || event.Done == nil && event.Token < 0 {
			t.Errorf("ended before its time: %+v, %v", event, err)
		}
	}
}
