package batch

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Job is what is done with each line.
type Job struct {
	Key      string // names all that shapes the output beside the input's lines
	Parallel int    // lines that are worked on at a time
	Prefix   string // with which each line of output begins, before its ID

	// Work makes a line of output, without its end, beginning with Prefix and the line's ID. An error ends the job.
	Work func(ctx context.Context, l Line) ([]byte, error)
	// Wrote, if it is not nil, hears of each line that has been written.
	Wrote func(l Line)
}

// mostHeld is how many bytes of lines, and of output for them, are held before no more are read.
const mostHeld = 256 << 20

// held counts bytes.
type held struct {
	bytes atomic.Int64
	less  chan struct{} // holds an element if there may be fewer
}

func (h *held) add(n int) {
	if h.bytes.Add(int64(n)); n < 0 {
		select {
		case h.less <- struct{}{}:
		default:
		}
	}
}

// wait waits until there is room for more. What is held is worked on, and so will be less.
func (h *held) wait(ctx context.Context, most int64) error {
	for h.bytes.Load() > most {
		select {
		case <-h.less:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pending is a line that is worked on.
type pending struct {
	line Line
	out  []byte
	err  error
	done chan struct{}
}

// Run works through the lines that are left, until there are none, ctx ends, or something fails. What was finished by then in an unbroken row
// is written. When it returns, nothing is worked on.
func (j *Job) Run(ctx context.Context, in *Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	todo := make(chan *pending)
	order := make(chan *pending, 8*j.Parallel+64) // read, and not yet written: what is done may wait so long for what is not
	h := &held{less: make(chan struct{}, 1)}
	var reading error
	go func() {
		defer close(order)
		reading = j.read(ctx, in, h, todo, order)
	}()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range j.Parallel {
		workers.Go(func() { j.work(ctx, h, todo) })
	}
	for {
		p, err := next(ctx, order)
		switch {
		case err != nil:
			return err
		case p == nil:
			return reading
		}
		if err := j.write(p, out); err != nil {
			return err
		}
		h.add(-len(p.line.Text) - len(p.out))
	}
}

// next is the next line in order, as long as one is there; nil after the last.
func next(ctx context.Context, order <-chan *pending) (*pending, error) {
	select {
	case p := <-order:
		return p, nil
	default:
	}
	select {
	case p := <-order:
		return p, nil
	case <-ctx.Done(): // while in may be waiting for a line that never comes
		return nil, ctx.Err()
	}
}

// read hands out lines in order.
func (j *Job) read(ctx context.Context, in *Reader, h *held, todo, order chan<- *pending) error {
	for {
		if err := h.wait(ctx, mostHeld); err != nil {
			return err
		}
		l, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h.add(len(l.Text))
		p := &pending{line: l, done: make(chan struct{})}
		for _, to := range []chan<- *pending{todo, order} {
			select {
			case to <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (j *Job) work(ctx context.Context, h *held, todo <-chan *pending) {
	for {
		select {
		case p := <-todo:
			p.out, p.err = j.Work(ctx, p.line)
			h.add(len(p.out))
			close(p.done)
		case <-ctx.Done():
			return
		}
	}
}

// write waits for a line and writes it.
func (j *Job) write(p *pending, out io.Writer) error {
	<-p.done
	if p.err != nil {
		return p.err
	}
	if _, err := out.Write(append(p.out, '\n')); err != nil {
		return err
	}
	if j.Wrote != nil {
		j.Wrote(p.line)
	}
	return nil
}
