package spec

import (
	"errors"
	"fmt"
	"time"

	"memra/compute"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// ErrNoHead is returned for models without a layer that guesses.
var ErrNoHead = errors.New("spec: the model has no layer that guesses (multi-token prediction)")

// Head guesses with a layer that came with the model (model.Drafter, arXiv:2404.19737). It sees what the model has made of a token, and
// the token after it; what it makes of them stands for what the model would make of the latter, and so on, guess after guess.
//
// The layer has keys and values of its own. A prompt's rows are remembered in the steps that compute them; rows of drafts and the last
// row of all are kept as they leave the model, until the token after them is known, and remembered with the next guess. So the layer
// never sees a guess where the model's own row is to be had. A sequence whose rows were not all seen, because they came from a cache or
// nobody drafted it then, begins where they were: the layer's positions count from there.
type Head struct {
	device  compute.Device
	model   *model.Model
	layer   model.Drafter
	pool    *state.Pool
	kept    compute.RowMemory // what the model made of rows of the last step
	guessed compute.RowMemory // what the layer made of its last rows
	most    int               // rows of a sequence that are kept
	step    int               // steps so far: what is kept is the last one's
	times   meter
}

// NewHead reserves what the layer of a model needs for sequences of c with drafts up to a depth. ErrNoHead: the model has none.
func NewHead(d compute.Device, m *model.Model, c state.Config, depth int) (h *Head, err error) {
	layer, ok := m.Family.(model.Drafter)
	if !ok || len(layer.DraftState()) == 0 {
		return nil, ErrNoHead
	}
	h = &Head{device: d, model: m, layer: layer, most: depth + 1}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("spec: %w", err), h.Close())
		}
	}()
	if h.pool, err = state.NewPool(d, layer.DraftState(), c); err != nil {
		return h, err
	}
	if h.kept, err = d.NewRows(c.Sequences*h.most, layer.FeatureWidth()); err != nil {
		return h, err
	}
	h.guessed, err = d.NewRows(c.Sequences, layer.FeatureWidth())
	return h, err
}

func (*Head) Kind() string { return "mtp" }

// Close frees the layer's keys and values.
func (h *Head) Close() error {
	var errs []error
	if h.pool != nil {
		errs = append(errs, h.pool.Close())
	}
	for _, m := range []compute.RowMemory{h.kept, h.guessed} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

func (h *Head) Cost(sequences int) float64 {
	if sequences == 0 {
		return 0
	}
	return h.times.of(sequences)
}

// headMemory is what the layer remembers of a sequence: its positions from base on.
type headMemory struct {
	head  *Head
	state *state.Sequence
	base  int

	step             int // whose rows are kept
	from, rows, kept int // so many from position `from` on, in the rows of Head.kept from `kept` on
}

func (h *Head) Begin() Memory { return &headMemory{head: h, state: h.pool.NewSequence()} }

// Fork shares the layer's keys and values, and nothing that waits.
func (m *headMemory) Fork() Memory {
	return &headMemory{head: m.head, state: m.state.Fork(), base: m.base}
}

func (m *headMemory) Free() {
	m.state.Free()
	m.base, m.rows = 0, 0
}

// Sight needs what the model made of the token before the last.
func (m *headMemory) Sight(tokens []int32) int {
	if before := len(tokens) - 2; m.rows == 0 || m.step != m.head.step || before < m.from || before >= m.from+m.rows {
		return None
	}
	return 0
}

// extend makes room for so many positions from one on, and forgets what was there. Without the ones before it begins anew; false: there
// is no room.
func (m *headMemory) extend(from, n int) bool {
	if at := from - m.base; at < 0 || at > m.state.Len() || m.state.Truncate(at) != nil {
		m.state.Free()
	}
	if m.state.Len() == 0 {
		m.base = from
	}
	if m.state.Extend(n) != nil {
		m.Free()
		return false
	}
	return true
}

// Forward has the layer remember the rows whose next token is known, and keeps those that drafts may be made of.
func (h *Head) Forward(b *compute.Batch, s *state.View, shares []Share) func(compute.Ops) compute.Tensor {
	h.step++
	var keep []int32
	var states []*state.Sequence
	rows := make([]place, b.Rows())
	remembered := false
	for _, sh := range shares {
		m, ok := sh.Memory.(*headMemory)
		if !ok {
			continue
		}
		n := 0 // rows that are remembered
		switch {
		case sh.From+sh.Rows < len(sh.Tokens): // a prompt's chunk
			n = sh.Rows
		case sh.Rows > h.most: // a prompt's last
			n = sh.Rows - 1
		}
		m.step, m.from, m.rows, m.kept = h.step, sh.From+n, sh.Rows-n, len(keep)
		for i := n; i < sh.Rows; i++ {
			keep = append(keep, int32(sh.Row+i))
		}
		if n == 0 || !m.extend(sh.From, n) {
			continue
		}
		for i := range n {
			rows[sh.Row+i] = place{sh.Tokens[sh.From+i+1], sh.From + i - m.base, len(states) + 1}
		}
		states, remembered = append(states, m.state), true
	}
	var known compute.Batch
	for _, r := range rows {
		known.Add(r.token, r.position, r.slot-1, false)
	}
	view := h.pool.View(states...)
	return func(ops compute.Ops) compute.Tensor {
		x := h.layer.Features(ops, b, s)
		if remembered {
			h.layer.Remember(ops, &known, x, view)
		}
		ops.Keep(h.kept, x, keep)
		return h.layer.Logits(ops, b, x)
	}
}

// place is a row of the layer; slot 0 is none.
type place struct {
	token    int32
	position int
	slot     int
}

// Draft guesses a token for each sequence in a step of the layer, as long as any wants more.
func (h *Head) Draft(asks []*Ask) error {
	var active []*Ask
	var b compute.Batch
	var hidden []int32
	for _, a := range asks {
		m := a.memory().(*headMemory)
		n := len(a.Tokens) - 1 - m.from
		if a.Depth == 0 || !m.extend(m.from, n) {
			continue
		}
		for i := range n {
			b.Add(a.Tokens[m.from+i+1], m.from+i-m.base, len(active), i == n-1)
			hidden = append(hidden, int32(m.kept+i))
		}
		active = append(active, a)
	}
	for memory := h.kept; len(active) > 0; memory = h.guessed {
		var err error
		if active, err = h.guess(active, &b, memory, hidden); err != nil {
			return err
		}
		b, hidden = compute.Batch{}, hidden[:0]
		deeper := active[:0]
		for i, a := range active {
			m := a.memory().(*headMemory)
			if len(a.Drafts) == a.Depth || m.state.Extend(1) != nil {
				continue
			}
			b.Add(a.Drafts[len(a.Drafts)-1], m.state.Len()-1, len(deeper), true)
			hidden = append(hidden, int32(i))
			deeper = append(deeper, a)
		}
		active = deeper
	}
	return nil
}

// guess computes rows of the layer and appends a draft to each ask. The asks that it returns are those that got one, in the order of
// the rows that are left in Head.guessed.
func (h *Head) guess(asks []*Ask, b *compute.Batch, memory compute.RowMemory, hidden []int32) ([]*Ask, error) {
	began := time.Now()
	draws, states := draws(asks), make([]*state.Sequence, len(asks))
	for i, a := range asks {
		states[i] = a.memory().(*headMemory).state
	}
	view := h.pool.View(states...)
	picks, err := h.device.Sample(func(ops compute.Ops) compute.Tensor {
		next, logits := h.layer.Draft(ops, b, ops.Kept(memory, hidden), view)
		ops.Keep(h.guessed, next, b.Logits)
		return logits
	}, draws)
	if err != nil {
		return nil, fmt.Errorf("spec: a guess of the model's own layer: %w", err)
	}
	h.times.learn(len(asks), time.Since(began).Seconds())
	return took(asks, picks), nil
}

// draws is how the next guess of each ask is drawn: as the token will be, but nobody is told of it.
func draws(asks []*Ask) []sample.Draw {
	draws := make([]sample.Draw, len(asks))
	for i, a := range asks {
		draws[i] = a.Draw(a.Drafts)
		draws[i].LogProb, draws[i].Top = false, 0
	}
	return draws
}

// took appends what was picked to the asks' drafts. One that gives no token gets no more.
func took(asks []*Ask, picks []sample.Pick) []*Ask {
	for i, p := range picks {
		if a := asks[i]; p.Err != nil {
			a.Depth = len(a.Drafts)
		} else {
			a.Drafts = append(a.Drafts, p.Token)
		}
	}
	return asks
}
