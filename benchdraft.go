package memra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"memra/engine"
	"memra/sample"
)

// DraftTest is one thing to measure: how much faster answers come where tokens are guessed ahead. The prompt is real text, for guesses of
// random tokens never come true; Generate tokens follow it, whatever they are, in each of Streams sequences that are served together. Of
// the prompt, each lacks a few more tokens at its end than the one before.
type DraftTest struct {
	Prompt            []int32
	Generate, Streams int
	Sampling          sample.Params
}

// between is how many tokens fewer of the prompt each stream has than the one before.
const between = 3

// DraftResult is a test's figures: tokens a second of all streams, from when each has its first to when one has its last, without guesses and
// with them, one after the other in every repetition.
type DraftResult struct {
	DraftTest
	Plain, Drafted []float64
	Drafts         Drafts
}

// BenchDrafts runs a test, once to warm up and to learn what pays, and then so many times. A model that keeps prefixes would know the
// prompt from the second time on: open it with NoPrefixCache.
func (m *Model) BenchDrafts(ctx context.Context, t DraftTest, repetitions int) (r DraftResult, err error) {
	r.DraftTest = t
	switch {
	case t.Generate < 2 || t.Streams < 1 || repetitions < 1:
		return r, fmt.Errorf("memra: bench of %d generated tokens in %d streams, %d times, want at least 2, 1 and 1", t.Generate, t.Streams, repetitions)
	case len(t.Prompt) <= between*t.Streams:
		return r, fmt.Errorf("memra: a prompt of %d tokens for %d streams, want at least %d", len(t.Prompt), t.Streams, between*t.Streams+1)
	case m.prefixes:
		return r, errors.New("memra: drafts are measured without a prefix cache")
	}
	var before Drafts
	for i := range repetitions + 1 {
		if i == 1 {
			before = m.Drafts()
		}
		for _, drafts := range []int{-1, 0} {
			rate, err := m.draftRate(ctx, t, drafts)
			switch {
			case err != nil:
				return r, err
			case i == 0:
			case drafts < 0:
				r.Plain = append(r.Plain, rate)
			default:
				r.Drafted = append(r.Drafted, rate)
			}
		}
	}
	r.Drafts = m.Drafts()
	r.Drafts.Rounds -= before.Rounds
	for i := range r.Drafts.Drafted {
		r.Drafts.Drafted[i] -= before.Drafted[i]
		r.Drafts.Accepted[i] -= before.Accepted[i]
	}
	return r, nil
}

// draftRate is the tokens a second of one run.
func (m *Model) draftRate(ctx context.Context, t DraftTest, drafts int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make([]*engine.Answer, t.Streams)
	err := m.between(func() (err error) { // so that they begin together, and run side by side as soon as their prompts are computed
		for i := range answers {
			r := engine.Request{Tokens: t.Prompt[:len(t.Prompt)-between*i], Limit: t.Generate, Draw: sample.Draw{Params: t.Sampling}, Drafts: drafts, Patient: true}
			if answers[i], err = m.submit(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	times := make([][]time.Time, t.Streams) // of each stream's tokens
	failed := make(chan error, t.Streams)
	for i, a := range answers {
		go func() {
			for len(times[i]) < t.Generate {
				e, err := a.Next(ctx)
				if err != nil {
					failed <- named(err)
					return
				}
				times[i] = append(times[i], e.At)
			}
			failed <- nil
		}()
	}
	for range t.Streams {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return 0, err
	}
	begin, end := times[0][0], times[0][t.Generate-1] // the last that begins; the first that ends
	for _, s := range times {
		if s[0].After(begin) {
			begin = s[0]
		}
		if last := s[len(s)-1]; last.Before(end) {
			end = last
		}
	}
	tokens := 0
	for _, s := range times {
		for _, at := range s {
			if at.After(begin) && !at.After(end) {
				tokens++
			}
		}
	}
	if tokens < t.Streams {
		return 0, fmt.Errorf("memra: %d tokens in %d streams, of which %d were generated while all streams were: generate more, or of a shorter prompt", t.Generate, t.Streams, tokens)
	}
	return float64(tokens) / end.Sub(begin).Seconds(), nil
}
