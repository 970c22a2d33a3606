package cuda

import "runtime"

// owner is the goroutine that owns the context: a context belongs to a thread, so this one is locked to its own, and everything
// that calls the driver is posted to it.
type owner struct{ work chan func() }

func newOwner() *owner {
	o := &owner{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, with the context current, ends with the goroutine
		for f := range o.work {
			f()
		}
	}()
	return o
}

// do runs f on the owner's thread and waits. A panic in f comes back to the caller.
func (o *owner) do(f func() error) (err error) {
	done := make(chan any, 1)
	o.work <- func() {
		defer func() { done <- recover() }()
		err = f()
	}
	if p := <-done; p != nil {
		panic(p)
	}
	return err
}

func (o *owner) end() { close(o.work) }
