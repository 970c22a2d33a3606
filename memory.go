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

// reserve chooses the step and the context and makes room for the KV cache, which all sequences share: a context for each, or as much of
// that as fits. One alone always has room for its context; where several do not, the engine lets some wait.
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
	if !memory.Lazy {
		m.step = min(m.step, ceilPage(m.context*m.sequences))
		if err := m.rehearse(m.model.State()); err != nil {
			return err
		}
		if memory, err = m.device.Memory(); err != nil {
			return err
		}
	}
	positions, err := m.positions(o, memory)
	if err != nil {
		return err
	}
	c := m.config(positions, m.sequences)
	if m.pool, err = state.NewPool(m.device, m.model.State(), c); err != nil {
		return err
	}
	return m.draftsOf(c)
}

// positions is how many tokens the cache has room for.
func (m *machine) positions(o Options, memory compute.Memory) (int, error) {
	room := memory.Free - spare - m.drafting.bytes
	switch {
	case o.KVMemory > 0 && memory.Total > 0 && o.KVMemory > room:
		return 0, fmt.Errorf("memra: a KV cache of %d bytes, and %d of %d bytes are free on %s; ask for less, or leave it to be as large as it can be",
			o.KVMemory, max(0, room), memory.Total, m.device.Name())
	case o.KVMemory > 0:
		room = o.KVMemory
	case memory.Total == 0:
		return m.context * m.sequences, nil
	}
	need := m.cacheBytes(m.config(m.context, m.sequences))
	if need <= room || m.fewer(o, room) {
		return m.largest(m.context*m.sequences, room), nil
	}
	if o.KVMemory == 0 && memory.Lazy {
		return m.context, nil
	}
	fit := m.largest(m.context, room)
	if o.Context > 0 || fit == 0 {
		return 0, fmt.Errorf("memra: a context of %d tokens, with %d sequences at once, needs %d bytes of KV cache, and there is room for %d of %d bytes on %s; "+
			"a context of %d tokens would fit: ask for no more, or for fewer sequences",
			m.context, m.sequences, need, max(0, room), memory.Total, m.device.Name(), fit)
	}
	o.Log.Warn("the context is smaller than the model's, for that is what fits the device's memory", "context", fit,
		"model", m.context, "needed", need, "free", room, "sequences", m.sequences)
	m.context = fit
	return fit, nil
}

// fewer lets fewer sequences be computed at once, if the context fits then: each takes memory of its own where a model has windows or
// delta-nets.
func (m *machine) fewer(o Options, room int) bool {
	for n := m.sequences / 2; n > 0; n /= 2 {
		if m.cacheBytes(m.config(m.context, n)) <= room {
			o.Log.Warn("fewer sequences are computed at once than were asked for, for that is what fits the device's memory", "sequences", n, "asked", m.sequences, "free", room)
			m.sequences = n
			return true
		}
	}
	return false
}

// config is a pool for so many tokens of so many sequences. As many conversations as can go on at once can rest: each has an end of its
// last prompt and one of its last answer.
func (m *machine) config(positions, sequences int) state.Config {
	c := state.Config{Format: m.format, Delta: m.device.DeltaFormat(), Positions: positions, Sequences: sequences, Step: m.step}
	if m.prefixes {
		c.Snapshots = 2 * sequences
	}
	return c
}

// largest is the most tokens, up to a number, else in whole pages, whose pool takes no more than so many bytes.
func (m *machine) largest(most, room int) int {
	fits := func(positions int) bool { return m.cacheBytes(m.config(positions, m.sequences)) <= room }
	if fits(most) {
		return most
	}
	low, high := 0, most/compute.Page // low fits, high may not
	for low < high {
		if middle := (low + high + 1) / 2; fits(middle * compute.Page) {
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
