package memra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"memra/compute"
	"memra/internal/devices"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// machine is a model on a device, with room for its sequences: what a Model and a Synthetic share.
type machine struct {
	model   *model.Model
	facts   Facts
	file    io.Closer // that the model came from; nil: none
	context int
	step    int           // the most rows of a step
	slots   chan struct{} // holds an element for each living sequence
	format  compute.KVFormat

	mu     sync.Mutex // guards what follows: one step at a time
	device compute.Device
	pool   *state.Pool
	closed bool
}

// open brings a model to the device that the options name. What it took by then, Close gives back, also after an error.
func (m *machine) open(src source, o Options) (err error) {
	if m.format, err = compute.KVFormatOf(o.KVFormat); err != nil {
		return fmt.Errorf("memra: %w", err)
	}
	if o.Context < 0 || o.Sequences < 0 {
		return fmt.Errorf("memra: context of %d tokens and %d sequences, want none negative", o.Context, o.Sequences)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Sequences == 0 {
		o.Sequences = 4
	}
	open := devices.Open
	if o.open != nil {
		open = o.open
	}
	if m.device, err = open(o.Device, devices.Options{Threads: o.Threads, KV: m.format, Log: o.Log}); err != nil {
		return err
	}
	if err := m.fits(src); err != nil {
		return err
	}
	m.facts = factsOf(src, m.device, o.Threads)
	if m.model, err = model.Open(src, m.device); err != nil {
		return err
	}
	m.facts.Family = m.model.Name
	m.slots = make(chan struct{}, o.Sequences)
	return m.reserve(o)
}

// Close frees the model. Generations that run end with an error.
func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var errs []error
	if m.pool != nil {
		errs = append(errs, m.pool.Close())
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}

// Family is the model's family, such as "llama".
func (m *machine) Family() string { return m.model.Name }

// Context is the most tokens that a sequence can hold.
func (m *machine) Context() int { return m.context }

// Device says what computes, for people: "cpu (AVX-512 VNNI, 2 threads)".
func (m *machine) Device() string { return m.device.Name() }

// acquire waits for a sequence.
func (m *machine) acquire(ctx context.Context) (*sequence, error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		<-m.slots
		return nil, ErrClosed
	}
	return &sequence{m: m, state: m.pool.NewSequence()}, nil
}

// run computes one step and answers a draw of each row of logits that the batch asks for, in its order; the logits stay where they
// are. Slot i of the batch is the i-th sequence, which has room for its rows.
func (m *machine) run(b *compute.Batch, draws []sample.Draw, sequences ...*state.Sequence) ([]sample.Pick, error) {
	view := m.pool.View(sequences...)
	return m.device.Sample(func(ops compute.Ops) compute.Tensor { return m.model.Forward(ops, b, view) }, draws)
}

// logitRows is the most rows of a step that may ask for logits: 128 KiB of them a row of the largest step.
func (m *machine) logitRows() int { return max(1, m.step*(128<<10)/4/m.model.Vocab) }
