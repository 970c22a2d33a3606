package engine

import (
	"time"

	"memra/compute"
	"memra/sample"
)

// flight is a step that has been begun, and computed where the device does one at a time.
type flight struct {
	*step
	wait  func() ([]sample.Pick, error)
	began time.Time
	err   error // why it was not begun
}

// next plans a step; nil: there is nothing to compute.
func (e *Engine) next(took func(time.Time) time.Duration) *flight {
	e.scheduler.drafts.draft(e.scheduler.running) // which sees for itself what it takes
	begun := time.Now()
	st := e.scheduler.plan()
	e.deliver() // who begins now, and not when the step is over
	if st == nil {
		e.scheduler.drafts.await()
		e.after = 0
		return nil
	}
	st.beside = e.after + took(begun)
	f := e.begin(st)
	f.began = f.began.Add(e.scheduler.drafts.await()) // the device came to it when the guesses were made
	return f
}

// under is the step that was begun before the last ended, which is the last now; nil: there is none.
func (e *Engine) under() *flight {
	f := e.flight
	if e.flight = nil; f != nil {
		for _, c := range f.chunks {
			c.sequence.ahead = false
		}
	}
	return f
}

// ahead begins the step after one that runs, if it can be known; nil: it cannot, or somebody wants something between the two.
func (e *Engine) ahead(of *flight) *flight {
	if _, ok := e.config.Device.(compute.Overlapping); !ok || of.err != nil || e.news() {
		return nil
	}
	st := e.scheduler.ahead(of.step)
	if st == nil {
		return nil
	}
	f := e.begin(st)
	if f.err != nil { // as it would be in its turn, which says so
		st.takeBack()
		return nil
	}
	return f
}

// news reports whether something was posted, or the engine closed.
func (e *Engine) news() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.inbox) > 0 || e.closed
}

// begin begins a step. What comes of padding stands at the end of what comes of draws.
func (e *Engine) begin(st *step) *flight {
	f := &flight{step: st, began: time.Now()}
	st.pad(e.config.Device, e.scheduler.limits)
	view := e.config.Pool.View(st.states...)
	forward := e.scheduler.drafts.forward(e.config.Model, st, view)
	if f.wait, f.err = compute.Start(e.config.Device, forward, st.draws); f.err != nil {
		f.wait = func() ([]sample.Pick, error) { return nil, f.err }
	}
	return f
}

// finish waits for a step, and tells the answers what came of it.
func (e *Engine) finish(f *flight, took func(time.Time) time.Duration) {
	picks, err := f.wait()
	if err != nil && e.flight != nil { // it goes on from nothing
		e.flight.wait()
		e.flight.takeBack()
		e.flight = nil
	}
	if err != nil && e.config.Log != nil {
		e.config.Log.Warn("a step failed; its sequences are tried again", "rows", f.rows, "sequences", len(f.chunks), "why", err)
	}
	if f.began.Before(e.computed) { // and waited for the one before
		f.began = e.computed
	}
	f.took = took(f.began)
	e.computed = time.Now()
	e.scheduler.apply(f.step, picks, err)
	e.deliver()
	e.after = took(e.computed)
}
