package cuda

import (
	"runtime"
	"sync"
)

// owner lets one goroutine at a time use the context: a context belongs to a thread, so whoever calls the driver has it made
// current on a thread that is its own for so long. Nobody waits for another thread to wake, which a step would do twice.
type owner struct {
	mu    sync.Mutex
	enter func() error // makes the context current; nil: there is none yet
}

// do runs f, with the context current, when nobody else does.
func (o *owner) do(f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if o.enter != nil {
		if err := o.enter(); err != nil {
			return err
		}
	}
	return f()
}
