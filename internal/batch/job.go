package batch

import (
	"context"
	"errors"
	"io"
	"sync"
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
	var reading error
	go func() {
		defer close(order)
		reading = j.read(ctx, in, todo, order)
	}()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for range j.Parallel {
		workers.Go(func() { j.work(ctx, todo) })
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
func (j *Job) read(ctx context.Context, in *Reader, todo, order chan<- *pending) error {
	for {
		l, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
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

func (j *Job) work(ctx context.Context, todo <-chan *pending) {
	for {
		select {
		case p := <-todo:
			p.out, p.err = j.Work(ctx, p.line)
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
