package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"memra/compute"
	"memra/model"
	"memra/spec"
	"memra/state"
)

// ErrClosed is what a closed engine's requests get.
var ErrClosed = errors.New("engine: closed")

// Config is what an engine computes with.
type Config struct {
	Device    compute.Device
	Model     *model.Model
	Pool      *state.Pool
	Prefixes  *state.Tree      // of the pool, what sequences begin with and leave behind; nil: nothing
	Rows      int              // the most rows of a step
	Asking    int              // the most of them whose logits are wanted
	Sequences int              // the most sequences that run at once; more wait
	Context   int              // the most tokens of a sequence
	Drafts    *spec.Speculator // guesses tokens ahead; nil: nothing does
	Log       *slog.Logger     // hears of steps that fail; nil: nobody
}

// Engine computes requests. Its methods are safe for concurrent use.
type Engine struct {
	config    Config
	scheduler *scheduler    // the goroutine's own, like the device and the pool
	wake      chan struct{} // holds an element if the goroutine has reason to look
	stopped   chan struct{} // closed when it has ended
	after     time.Duration // the goroutine's own: what it had to do since the last step was computed
	flight    *flight       // the goroutine's own: the step that was begun before the last ended; nil: none
	computed  time.Time     // the goroutine's own: when that was

	// Also the goroutine's own: requests whose prefix is on disk (prefix.go).
	fetching []*Answer      // the first is being read, if anything is
	reading  bool           // somebody reads
	left     int            // pages that the first lacked when its last piece was begun; 0: it is not begun
	readers  sync.WaitGroup // who read

	mu     sync.Mutex
	inbox  []func() // to be run by the goroutine between steps
	closed bool
}

// New starts an engine. Until Close has returned, the device and the pool are its own.
func New(c Config) *Engine {
	e := idle(c)
	go e.work()
	return e
}

// idle is an engine without its goroutine.
func idle(c Config) *Engine {
	e := &Engine{config: c, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	e.scheduler = newScheduler(c.Pool, c.Prefixes, limits{rows: c.Rows, asking: c.Asking, sequences: c.Sequences})
	e.scheduler.drafts = speculation{c.Drafts}
	return e
}

// Submit takes a request in. Its error says why it could never be served; whatever happens later comes with the answer. When ctx ends
// before the answer does, the request is cancelled, and the answer ends with ctx's error.
func (e *Engine) Submit(ctx context.Context, r Request) (*Answer, error) {
	a, err := newAnswer(e, &r)
	if err != nil {
		return nil, err
	}
	if err := e.config.Pool.Fits(r.length()); err != nil {
		return nil, fmt.Errorf("engine: the request can never fit: %w; lower its limit of tokens, or give the KV cache more memory", err)
	}
	a.detach = context.AfterFunc(ctx, func() { a.cancel(ctx.Err()) })
	take := func() {
		if err := ctx.Err(); err != nil { // a cancellation that came earlier has found nothing to end
			a.fail(err)
			return
		}
		e.take(a)
	}
	if !e.post(take) {
		a.detach()
		return nil, ErrClosed
	}
	return a, nil
}

// Between runs f between two steps, when nothing else uses the device, and waits for it.
func (e *Engine) Between(f func() error) (err error) {
	done := make(chan struct{})
	if !e.post(func() { err = f(); close(done) }) {
		return ErrClosed
	}
	<-done
	return err
}

// Close ends every request with ErrClosed, and returns when the device is idle. The device and the pool are the caller's again.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.signal()
	<-e.stopped
	e.readers.Wait()
}

// post has the goroutine run f between steps; false: it has ended, or is about to.
func (e *Engine) post(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.inbox = append(e.inbox, f)
	e.signal()
	return true
}

func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// work is the engine's goroutine.
func (e *Engine) work() {
	defer close(e.stopped)
	for !e.read() {
		if !e.step(time.Since) {
			<-e.wake
		}
	}
	e.end()
	e.deliver()
}

// step computes one step, and tells the answers; false: there is nothing to compute. took measures time. The step after it may have been begun
// meanwhile.
func (e *Engine) step(took func(time.Time) time.Duration) bool {
	f := e.under()
	if f == nil {
		f = e.next(took)
	}
	if f == nil {
		return false
	}
	e.flight = e.ahead(f)
	e.finish(f, took)
	return true
}

// land waits for the step that is under way, if there is one.
func (e *Engine) land() {
	if f := e.under(); f != nil {
		e.finish(f, time.Since)
	}
}

// read does what was posted, while no step is under way, and reports whether the engine is closed.
func (e *Engine) read() bool {
	e.mu.Lock()
	inbox, closed := e.inbox, e.closed
	e.inbox = nil
	e.mu.Unlock()
	if len(inbox) > 0 || closed {
		e.land()
	}
	for _, f := range inbox {
		f()
	}
	return closed
}

// deliver passes the scheduler's notes on.
func (e *Engine) deliver() {
	now := time.Now()
	for _, n := range e.scheduler.notes {
		switch {
		case n.began != nil:
			n.answer.begin(n.index, *n.began, now)
		case n.err != nil:
			n.answer.fail(n.err)
		default:
			n.answer.put(n.event, now)
		}
	}
	clear(e.scheduler.notes)
	e.scheduler.notes = e.scheduler.notes[:0]
}
