package memra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"memra/engine"
	"memra/sample"
)

// DraftTest is one thing to measure: how much faster answers come where tokens are guessed ahead. The prompt is real text, for guesses of
// random tokens never come true; tokens follow it, whatever they are, in each of Streams sequences that are served together, Generate of them a
// stream once all streams run. Of the prompt, each lacks a few more tokens at its end than the one before.
type DraftTest struct {
	Prompt            []int32
	Generate, Streams int
	Sampling          sample.Params
}

// between is how many tokens fewer of the prompt each stream has than the one before.
const between = 3

// Room is how many tokens a stream may generate: of several also while the prompts of others are computed, which takes long.
func (t DraftTest) Room() int {
	if t.Streams == 1 {
		return t.Generate
	}
	return 4 * t.Generate
}

// DraftResult is a test's figures: tokens a second of all streams from when each has its first on, without guesses and with them, one after the
// other in every repetition.
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
	case len(t.Prompt)+t.Room() > m.Context():
		return r, fmt.Errorf("memra: a prompt of %d tokens in a context of %d, want at most %d, for each of %d streams may generate %d", len(t.Prompt), m.Context(), m.Context()-t.Room(), t.Streams, t.Room())
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
	limit := t.Room()
	err := m.between(func() (err error) { // so that they begin together, and run side by side as soon as their prompts are computed
		for i := range answers {
			r := engine.Request{Tokens: t.Prompt[:len(t.Prompt)-between*i], Limit: limit, Draw: sample.Draw{Params: t.Sampling}, Drafts: drafts, Patient: true}
			if answers[i], err = m.submit(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	tokens := make(chan streamed)
	for i, a := range answers {
		go func() {
			for range limit {
				e, err := a.Next(ctx)
				select {
				case tokens <- streamed{stream: i, at: e.At, err: named(err)}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		}()
	}
	return sideBySide(ctx, t, limit, tokens)
}

// streamed is a token of a stream, or why there is none.
type streamed struct {
	stream int
	at     time.Time
	err    error
}

// sideBySide is the tokens a second of all streams from when the last of them has its first, until they have t.Generate each in the mean, or one of
// them has all that it may have.
func sideBySide(ctx context.Context, t DraftTest, limit int, tokens <-chan streamed) (float64, error) {
	var times []time.Time
	var begin time.Time // the last first token
	have := make([]int, t.Streams)
	for begun, together := 0, 0; together < t.Generate*t.Streams; {
		var s streamed
		select {
		case s = <-tokens:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if s.err != nil {
			return 0, s.err
		}
		if have[s.stream]++; have[s.stream] == 1 {
			if begun++; s.at.After(begin) {
				begin = s.at
			}
		}
		times = append(times, s.at)
		if begun == t.Streams {
			together++
		}
		if have[s.stream] == limit {
			if begun < t.Streams {
				return 0, fmt.Errorf("memra: a stream has generated %d tokens before all %d have begun: generate more, or of a shorter prompt", limit, t.Streams)
			}
			break
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	count, end := 0, times[len(times)-1]
	for _, at := range times {
		if at.After(begin) {
			count++
		}
	}
	if count == 0 {
		return 0, fmt.Errorf("memra: no token was generated while all %d streams were: generate more than %d", t.Streams, t.Generate)
	}
	return float64(count) / end.Sub(begin).Seconds(), nil
}
