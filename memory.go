package memra

import (
	"errors"
	"fmt"

	"memra/compute"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// source is a model with the sizes that are wanted before its weights are touched.
type source interface {
	model.Source
	Parameters() int
	Bytes() int // of all tensors
	Host() int  // of them, what the process holds beside the device while they are packed
}

// fits refuses a model whose weights are larger than the memory that is free: packed weights are no smaller.
func (m *machine) fits(src source) error {
	memory, err := m.device.Memory()
	if err != nil || memory.Total == 0 {
		return err
	}
	need := src.Bytes()
	if m.device.Class() == "cpu" {
		need += src.Host()
	}
	if need > memory.Free {
		return &sizeError{src.Name(), need, memory, m.device.Name()}
	}
	return nil
}

// sizeError is a model that a device has no room for.
type sizeError struct {
	model  string
	need   int // bytes
	memory compute.Memory
	device string
}

func (e *sizeError) Error() string {
	return fmt.Sprintf("memra: %s has %d bytes of weights, %d of %d bytes are free on %s; take a smaller model or format",
		e.model, e.need, e.memory.Free, e.memory.Total, e.device)
}

// Unwrap is compute.ErrMemory.
func (e *sizeError) Unwrap() error { return compute.ErrMemory }

// spare is what stays free on a device for graphs and for steps of unusual shapes.
const spare = 256 << 20

// reserve chooses the step and the context and makes room for the KV cache.
//
// A device that takes memory as it is used can be promised any context. On others the cache must fit: a context that was asked
// for is refused if it does not, one that was not is made as small as it must be. What is free is known exactly, because a step
// of the largest size has been computed by then and holds its memory.
func (m *machine) reserve(o Options) error {
	m.context = o.Context
	if m.context == 0 {
		m.context = max(m.model.Context, compute.Page)
	}
	m.step = m.device.Step()
	memory, err := m.device.Memory()
	if err != nil {
		return err
	}
	layout, sequences := m.model.State(), o.Sequences
	if !memory.Lazy {
		m.step = min(m.step, ceilPage(m.context))
		if err := m.rehearse(layout); err != nil {
			return err
		}
		if memory, err = m.device.Memory(); err != nil {
			return err
		}
		room, need := memory.Free-spare, layout.Bytes(m.config(m.context, sequences))
		if need > room {
			fit := m.largestContext(layout, sequences, room)
			if o.Context > 0 || fit == 0 {
				return fmt.Errorf("memra: a context of %d tokens for %d sequences needs %d bytes of KV cache, and %d of %d bytes are free on %s; "+
					"a context of %d tokens would fit: ask for no more, or for fewer sequences",
					m.context, sequences, need, max(0, room), memory.Total, m.device.Name(), fit)
			}
			o.Log.Warn("the context is smaller than the model's, for that is what fits the device's memory", "context", fit,
				"model", m.context, "needed", need, "free", room, "sequences", sequences)
			m.context = fit
		}
	}
	m.pool, err = state.NewPool(m.device, layout, m.config(m.context, sequences))
	return err
}

// config is a pool for so many sequences of a context.
func (m *machine) config(context, sequences int) state.Config {
	return state.Config{Format: m.format, Delta: m.device.DeltaFormat(), Positions: context * sequences, Sequences: sequences, Step: m.step}
}

// largestContext is the most whole pages of each sequence whose pool takes no more than so many bytes.
func (m *machine) largestContext(layout state.Layout, sequences, room int) int {
	low, high := 0, m.context/compute.Page // low fits, high may not
	for low < high {
		if middle := (low + high + 1) / 2; layout.Bytes(m.config(middle*compute.Page, sequences)) <= room {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low * compute.Page
}

// rehearse computes a step of the largest size, which makes the device take the memory of its tensors. Where that is more than
// is free, steps become smaller.
func (m *machine) rehearse(layout state.Layout) error {
	for {
		err := m.rehearseOnce(layout)
		if err == nil || m.step <= compute.Page || !errors.Is(err, compute.ErrMemory) {
			return err
		}
		m.step = ceilPage(m.step / 2)
	}
}

func (m *machine) rehearseOnce(layout state.Layout) (err error) {
	if m.pool, err = state.NewPool(m.device, layout, m.config(m.step, 1)); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, m.pool.Close())
		m.pool = nil
	}()
	var b compute.Batch
	for i := range m.step {
		b.Add(0, i, 0, m.step-i <= m.logitRows())
	}
	draws := make([]sample.Draw, len(b.Logits))
	for i := range draws {
		draws[i] = sample.Draw{Given: true, LogProb: true, Top: sample.MaxTop} // the most that a step may take
	}
	s := m.pool.NewSequence()
	if err := s.Extend(m.step); err != nil {
		return err
	}
	_, err = m.run(&b, draws, s)
	return err
}

func ceilPage(n int) int { return (n + compute.Page - 1) / compute.Page * compute.Page }
