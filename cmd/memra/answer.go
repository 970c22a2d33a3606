package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"memra"
)

// stream writes an answer as it comes. It returns how the answer ended, and how long after `began` its first token came.
func (a *app) stream(ctx context.Context, m *memra.Model, r memra.Request, began time.Time) (done *memra.Done, first time.Duration, err error) {
	if isTerminal(a.out) {
		defer func() { // the shell's prompt wants a line of its own
			if _, e := fmt.Fprintln(a.out); err == nil {
				err = e
			}
		}()
	}
	for chunk, err := range m.Generate(ctx, r) {
		if err != nil {
			return nil, 0, err
		}
		if first == 0 {
			first = time.Since(began)
		}
		if _, err := fmt.Fprint(a.out, chunk.Text); err != nil {
			return nil, 0, err
		}
		done = chunk.Done
	}
	return done, first, nil
}

func (a *app) writeStats(m *memra.Model, r memra.Request, d *memra.Done, first time.Duration) {
	if !isTerminal(a.out) { // where both streams go to one place, the answer's line is still open
		fmt.Fprintln(a.err)
	}
	fmt.Fprint(a.err, statsText(d))
	fmt.Fprintf(a.err, "first token after %.2f s, with opening the file; %s, seed %d\n", first.Seconds(), m.Device(), r.Sampling.Seed)
}

// statsText is an answer's counts and rates. The first token comes with the prompt, so it does not count for the second rate.
func statsText(d *memra.Done) string {
	var b strings.Builder
	fmt.Fprintf(&b, "prompt  %5d tokens", d.Prompt)
	if d.Reused > 0 {
		fmt.Fprintf(&b, " (%d of them kept from before)", d.Reused)
	}
	fmt.Fprintf(&b, ", %.2f s, %.1f tokens/s\n", d.Prefill.Seconds(), rate(d.Prompt-d.Reused, d.Prefill))
	fmt.Fprintf(&b, "answer  %5d tokens, %.2f s, %.1f tokens/s; end: %s\n", d.Tokens, d.Decode.Seconds(), rate(d.Tokens-1, d.Decode), d.Reason)
	if d.Drafted > 0 {
		fmt.Fprintf(&b, "drafts  %5d tokens guessed ahead, %d of them right\n", d.Drafted, d.Accepted)
	}
	return b.String()
}

func rate(tokens int, d time.Duration) float64 {
	if tokens <= 0 || d <= 0 {
		return 0
	}
	return float64(tokens) / d.Seconds()
}
