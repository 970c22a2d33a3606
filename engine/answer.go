package engine

import (
	"context"
	"io"
	"sync"
	"time"

	"memra/sample"
)

// Event is a part of an answer: a token, or what a row of the prompt says, or the end.
type Event struct {
	Index  int  // which of the request's answers
	Scored bool // Token was given, not generated

	Token   int32
	LogProb float32               // where asked for
	Top     []sample.TokenLogProb // where asked for

	Done *Done // at the end of each answer, with no token
}

// Reasons why an answer ends.
const (
	Stop      = "stop"   // an end token
	Length    = "length" // the request's limit
	ScoreOnly = "scored" // no answer was asked for
)

// Done says how an answer ended, and what it took.
type Done struct {
	Reason    string
	Given     int    // tokens of the prompt
	Cached    int    // of which a cache had computed so many
	Miss      string // why not more
	Generated int    // tokens, the end token included
	Preempted int    // times that it gave up its pages

	Queued  time.Duration // until it began
	Prefill time.Duration // from then until the first token, or the last score
	Decode  time.Duration // from then until the end
}

// Answer is what becomes of a request, piece by piece. It may be read as slowly as one likes: nobody waits for it.
type Answer struct {
	engine    *Engine
	request   *Request
	sequences []*sequence
	progress  []progress // of each of the request's answers

	mu     sync.Mutex
	queue  []Event
	left   int   // answers that have not ended
	err    error // after the queue
	ready  chan struct{}
	detach func() bool // from the context of Submit
}

// progress is when things happened to one answer.
type progress struct{ submitted, began, first time.Time }

func newAnswer(e *Engine, r *Request) (_ *Answer, err error) {
	if err := r.check(e.config.Model.Vocab, e.config.Context); err != nil {
		return nil, err
	}
	a := &Answer{engine: e, request: r, left: r.answers(), ready: make(chan struct{}, 1), progress: make([]progress, r.answers())}
	for i := range a.progress {
		a.progress[i].submitted = time.Now()
	}
	a.sequences, err = r.sequences(a, e.config.Model.Vocab)
	return a, err
}

// Next is the next event. After the last, of all answers, it is io.EOF; after a failure, the reason; and when ctx ends, ctx's error.
// It is for one goroutine at a time.
func (a *Answer) Next(ctx context.Context) (Event, error) {
	for {
		a.mu.Lock()
		if len(a.queue) > 0 {
			e := a.queue[0]
			a.queue = a.queue[1:]
			a.mu.Unlock()
			return e, nil
		}
		err := a.err
		if err == nil && a.left == 0 {
			err = io.EOF
		}
		a.mu.Unlock()
		if err != nil {
			return Event{}, err
		}
		select {
		case <-a.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// Cancel ends the request. All that it holds is free before the next step; events that are there already can still be read, and
// context.Canceled follows them.
func (a *Answer) Cancel() { a.cancel(context.Canceled) }

func (a *Answer) cancel(cause error) {
	a.mu.Lock()
	over := a.over()
	a.mu.Unlock()
	if !over {
		a.engine.post(func() { a.engine.scheduler.cancel(a, cause) })
	}
}

// over reports whether nothing more will come. The caller holds mu.
func (a *Answer) over() bool { return a.err != nil || a.left == 0 }

// put appends an event, and fills in what it took.
func (a *Answer) put(e Event, now time.Time) {
	p := &a.progress[e.Index]
	switch {
	case e.Done != nil:
		if p.first.IsZero() {
			p.first = now
		}
		e.Done.Queued, e.Done.Prefill, e.Done.Decode = p.began.Sub(p.submitted), p.first.Sub(p.began), now.Sub(p.first)
	case !e.Scored && p.first.IsZero():
		p.first = now
	}
	a.mu.Lock()
	a.queue = append(a.queue, e)
	if e.Done != nil {
		a.left--
	}
	a.signal()
}

// begin notes that answer i has begun to be computed.
func (a *Answer) begin(i int, now time.Time) {
	if p := &a.progress[i]; p.began.IsZero() {
		p.began = now
	}
}

// fail ends the answers that have not ended.
func (a *Answer) fail(err error) {
	a.mu.Lock()
	if !a.over() {
		a.err = err
	}
	a.signal()
}

// signal wakes Next. The caller holds mu, which it gives back.
func (a *Answer) signal() {
	over := a.over()
	a.mu.Unlock()
	select {
	case a.ready <- struct{}{}:
	default:
	}
	if over && a.detach != nil {
		a.detach()
	}
}
