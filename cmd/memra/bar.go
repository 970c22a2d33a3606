package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows people how much of how much is done, on standard error; to anything but a terminal it says nothing.
type bar struct {
	*app
	options []progressbar.Option

	mu    sync.Mutex
	drawn *progressbar.ProgressBar // nil before the first call of set, and where there is no terminal
}

// bytesBar counts bytes.
func (a *app) bytesBar(what string) *bar {
	return &bar{app: a, options: []progressbar.Option{progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true)}}
}

// valuesBar counts values.
func (a *app) valuesBar(what string) *bar {
	return &bar{app: a, options: []progressbar.Option{progressbar.OptionSetDescription(what)}}
}

// set may be called from any goroutine.
func (b *bar) set(done, total int) {
	if !isTerminal(b.err) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn == nil {
		b.drawn = progressbar.NewOptions64(int64(total), append(b.options, progressbar.OptionSetWriter(b.err),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())...)
	}
	_ = b.drawn.Set64(int64(done)) // it could only not be drawn
}

// describe changes what stands before the bar.
func (b *bar) describe(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn != nil {
		b.drawn.Describe(what)
	}
}

func (b *bar) finish() {
	if b.drawn != nil {
		_ = b.drawn.Finish()
	}
}
