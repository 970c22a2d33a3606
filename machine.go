package memra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"memra/compute"
	"memra/engine"
	"memra/internal/devices"
	"memra/model"
	"memra/sample"
	"memra/state"
	"memra/state/disk"
)

// machine is a model on a device, and the engine that computes its sequences: what a Model and a Synthetic share.
type machine struct {
	model     *model.Model
	facts     Facts
	file      io.Closer // that the model came from; nil: none
	context   int
	sequences int // that are computed at once
	step      int // the most rows of a step
	format    compute.KVFormat
	prefixes  bool         // what has been computed is kept for requests that begin alike
	folder    *disk.Folder // where that outlives memory; nil: nowhere

	device compute.Device // the engine's, once it runs, as is the pool
	drafting
	pool   *state.Pool
	engine *engine.Engine

	closing sync.Once
	closed  error
}

// open brings a model to the device that the options name. What it took by then, Close gives back, also after an error.
// small is the file of a draft model, nil: none.
func (m *machine) open(src source, o Options, small file) (err error) {
	if m.format, err = compute.KVFormatOf(o.KVFormat); err != nil {
		return fmt.Errorf("memra: %w", err)
	}
	if o.Context < 0 || o.Sequences < 0 || o.KVMemory < 0 {
		return fmt.Errorf("memra: context of %d tokens, %d sequences and a KV cache of %d bytes, want none negative", o.Context, o.Sequences, o.KVMemory)
	}
	if err := o.checkCache(); err != nil {
		return err
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
	if err := m.openDraft(o, small); err != nil {
		return err
	}
	m.sequences, m.prefixes = o.Sequences, !o.NoPrefixCache
	if err := m.reserve(o); err != nil {
		return err
	}
	c := engine.Config{Device: m.device, Model: m.model, Pool: m.pool, Rows: m.step, Asking: m.logitRows(), Sequences: m.sequences, Context: m.context, Drafts: m.drafts, Log: o.Log}
	c.Prefixes = m.remember(src, o)
	m.engine = engine.New(c)
	return nil
}

// Close frees the model. Generations that run end with ErrClosed.
func (m *machine) Close() error {
	m.closing.Do(func() {
		if m.engine != nil {
			m.engine.Close()
		}
		if m.folder != nil {
			m.folder.Close()
		}
		errs := []error{m.drafting.close()}
		if m.pool != nil {
			errs = append(errs, m.pool.Close())
		}
		if m.device != nil {
			errs = append(errs, m.device.Close())
		}
		if m.file != nil {
			errs = append(errs, m.file.Close())
		}
		m.closed = errors.Join(errs...)
	})
	return m.closed
}

// Family is the model's family, such as "llama".
func (m *machine) Family() string { return m.model.Name }

// Context is the most tokens that a sequence can hold.
func (m *machine) Context() int { return m.context }

// Device says what computes, for people: "cpu (AVX-512 VNNI, 2 threads)".
func (m *machine) Device() string { return m.device.Name() }

// submit sends the engine a request.
func (m *machine) submit(ctx context.Context, r engine.Request) (*engine.Answer, error) {
	a, err := m.engine.Submit(ctx, r)
	if err != nil && !errors.Is(err, engine.ErrClosed) {
		err = &RequestError{Err: err}
	}
	return a, named(err)
}

// between runs f while the engine rests and the device is free.
func (m *machine) between(f func() error) error { return named(m.engine.Between(f)) }

// named gives the engine's end this package's name.
func named(err error) error {
	if errors.Is(err, engine.ErrClosed) {
		return ErrClosed
	}
	return err
}

// run computes one step and answers a draw of each row of logits that the batch asks for, in its order; the logits stay where they
// are. Slot i of the batch is the i-th sequence, which has room for its rows.
func (m *machine) run(b *compute.Batch, draws []sample.Draw, sequences ...*state.Sequence) ([]sample.Pick, error) {
	view := m.pool.View(sequences...)
	return m.device.Sample(func(ops compute.Ops) compute.Tensor { return m.model.Forward(ops, b, view) }, draws)
}

// begin begins such a step, behind the one that runs where the device takes it in before that has ended: wait for that one then.
func (m *machine) begin(b *compute.Batch, draws []sample.Draw, sequences ...*state.Sequence) (wait func() ([]sample.Pick, error), err error) {
	view := m.pool.View(sequences...)
	return compute.Start(m.device, func(ops compute.Ops) compute.Tensor { return m.model.Forward(ops, b, view) }, draws)
}

// logitRows is the most rows of a step that may ask for logits: 128 KiB of them a row of the largest step, and a row for each sequence.
func (m *machine) logitRows() int {
	return min(m.step, max(m.sequences, m.step*(128<<10)/4/m.model.Vocab))
}
