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

	At time.Time // when it came of its step; whoever reads it may be late
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
	Generated int // tokens, the end token included
	Usage
}

// Usage is what an answer has taken.
type Usage struct {
	Given     int    // tokens of the prompt
	Cached    int    // of which a cache had computed so many
	Miss      string // why not more
	Preempted int    // times that it gave up its pages
	Drafted   int    // tokens that were guessed ahead
	Accepted  int    // of which so many were right

	Queued  time.Duration // until it began
	Prefill time.Duration // from then until the first token, or the last score
	Decode  time.Duration // from then until the last event
}

// Answer is what becomes of a request, piece by piece. It may be read as slowly as one likes: nobody waits for it.
type Answer struct {
	engine    *Engine
	request   *Request
	sequences []*sequence
	ready     chan struct{} // holds an element if there is news
	detach    func() bool   // from the context of Submit

	mu       sync.Mutex
	progress []progress // of each of the request's answers
	queue    []Event
	left     int   // answers that have not ended
	err      error // after the queue
}

// progress is when things happened to one answer, and what is known of its usage.
type progress struct {
	submitted, began, first, last time.Time
	usage                         Usage
}

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

// Next is the next event. After the last, of all answers, it is io.EOF; after a failure, the reason; and once ctx has ended, ctx's
// error. It is for one goroutine at a time.
func (a *Answer) Next(ctx context.Context) (Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
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
		a.engine.post(func() { a.engine.drop(a, cause) })
	}
}

// over reports whether nothing more will come. The caller holds mu.
func (a *Answer) over() bool { return a.err != nil || a.left == 0 }

// Usage is what answer i has taken so far. The end of an answer that ends by itself says it, too.
func (a *Answer) Usage(i int) Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progress[i].sum()
}

func (p *progress) sum() Usage {
	u := p.usage
	if !p.began.IsZero() {
		u.Queued = p.began.Sub(p.submitted)
	}
	if !p.first.IsZero() {
		u.Prefill, u.Decode = p.first.Sub(p.began), p.last.Sub(p.first)
	}
	return u
}

// put appends an event.
func (a *Answer) put(e Event, now time.Time) {
	a.mu.Lock()
	p := &a.progress[e.Index]
	e.At, p.last = now, now
	if p.first.IsZero() && !e.Scored {
		p.first = now
	}
	if e.Done != nil {
		p.usage.Preempted, p.usage.Drafted, p.usage.Accepted = e.Done.Preempted, e.Done.Drafted, e.Done.Accepted
		e.Done.Usage = p.sum()
		a.left--
	}
	a.queue = append(a.queue, e)
	a.signal()
}

// begin notes that answer i has begun to be computed.
func (a *Answer) begin(i int, u Usage, now time.Time) {
	a.mu.Lock()
	p := &a.progress[i]
	p.began, p.usage = now, u
	a.mu.Unlock()
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
