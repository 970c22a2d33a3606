package memra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"memra/engine"
)

// Load is requests of random tokens, for a measurement: each has so many to begin with and so many to generate, which no end token cuts short.
type Load struct {
	Requests, Prompt, Generate int
	Parallel                   int // served at a time; the next begins when one has ended
}

// Served says how requests were served.
type Served struct {
	Requests  int
	Prompt    int             // tokens given
	Cached    int             // of which a cache had computed so many
	Generated int             // tokens
	Drafted   int             // tokens that were guessed ahead
	Accepted  int             // of which so many were right
	Preempted int             // times that a sequence gave up its pages
	First     []time.Duration // of each answer: from its request to its first token
	Next      []time.Duration // of each token after those: from the one before
	Elapsed   time.Duration
}

// Serve serves a load.
func (m *machine) Serve(ctx context.Context, l Load) (Served, error) {
	if l.Requests < 1 || l.Prompt < 1 || l.Generate < 1 || l.Parallel < 1 {
		return Served{}, fmt.Errorf("memra: a load of %d requests, %d at a time, of %d tokens given and %d generated: want all positive", l.Requests, l.Parallel, l.Prompt, l.Generate)
	}
	return serve(l.Requests, l.Parallel, func(i int, w *watch) error {
		rng := rand.New(rand.NewPCG(uint64(l.Prompt)<<40^uint64(l.Generate)<<20^uint64(l.Parallel), uint64(i))) // no other load's, which a cache may have
		tokens := make([]int32, l.Prompt)
		for j := range tokens {
			tokens[j] = rng.Int32N(int32(m.model.Vocab))
		}
		w.begin(1)
		answer, err := m.submit(ctx, engine.Request{Tokens: tokens, Limit: l.Generate})
		if err != nil {
			return err
		}
		defer answer.Cancel()
		for {
			e, err := answer.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return named(err)
			}
			if e.Done == nil {
				w.token(0)
			} else {
				w.end(0, Done{Prompt: e.Done.Given, Reused: e.Done.Cached, Drafted: e.Done.Drafted, Accepted: e.Done.Accepted, Preempted: e.Done.Preempted})
			}
		}
	})
}

// ServeRequests serves requests of any kind, so many at a time, texts and all.
func (m *Model) ServeRequests(ctx context.Context, requests []Request, parallel int) (Served, error) {
	return serve(len(requests), parallel, func(i int, w *watch) error {
		w.begin(max(1, min(requests[i].N, MostAnswers)))
		return m.generate(ctx, requests[i], func(c Chunk) bool {
			if c.Token != nil {
				w.token(c.Index)
			}
			if c.Done != nil {
				w.end(c.Index, *c.Done)
			}
			return true
		})
	})
}

// watch notes when the tokens of one request's answers come.
type watch struct {
	Served
	began time.Time
	last  []time.Time // of each answer: its last token
}

// begin is the moment of the request, which has so many answers.
func (w *watch) begin(answers int) {
	w.began, w.last = time.Now(), make([]time.Time, answers)
}

// token is the moment of a token of answer i.
func (w *watch) token(i int) {
	now := time.Now()
	if w.last[i].IsZero() {
		w.First = append(w.First, now.Sub(w.began))
	} else {
		w.Next = append(w.Next, now.Sub(w.last[i]))
	}
	w.last[i] = now
	w.Generated++
}

// end is the end of an answer. The prompt is the same for all.
func (w *watch) end(i int, d Done) {
	w.Preempted += d.Preempted
	w.Drafted += d.Drafted
	w.Accepted += d.Accepted
	if i == 0 {
		w.Prompt, w.Cached = d.Prompt, d.Reused
	}
}

// serve has n requests served, so many at a time, the next when one has ended. one serves request i.
func serve(n, parallel int, one func(i int, w *watch) error) (Served, error) {
	watches, errs := make([]watch, n), make([]error, n)
	began := time.Now()
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(n, parallel) {
		wait.Go(func() {
			for i := range next {
				errs[i] = one(i, &watches[i])
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	all := Served{Requests: n, Elapsed: time.Since(began)}
	for _, w := range watches {
		all.Prompt += w.Prompt
		all.Cached += w.Cached
		all.Generated += w.Generated
		all.Preempted += w.Preempted
		all.Drafted += w.Drafted
		all.Accepted += w.Accepted
		all.First = append(all.First, w.First...)
		all.Next = append(all.Next, w.Next...)
	}
	return all, errors.Join(errs...)
}
