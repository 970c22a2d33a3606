package spec

import (
	"fmt"
	"slices"
	"time"

	"memra/compute"
	"memra/model"
	"memra/state"
)

// Small guesses with another model of the same vocabulary, smaller than the one it guesses for. It reads prompts when that does, and then
// goes ahead by itself.
type Small struct {
	device      compute.Device
	model, next *model.Model // next: the one whose tokens are guessed
	pool        *state.Pool
	context     int
	rows        int // of a step
	most        int // rows of a sequence that wait until a draft is wanted
	times       guesses
}

// NewSmall reserves what sequences of c need in the small model m, to guess for the model next.
func NewSmall(d compute.Device, m, next *model.Model, c state.Config, depth int) (*Small, error) {
	pool, err := state.NewPool(d, m.State(), c)
	if err != nil {
		return nil, fmt.Errorf("spec: the draft model: %w", err)
	}
	context := m.Context
	if context == 0 {
		context = c.Positions
	}
	return &Small{device: d, model: m, next: next, pool: pool, context: context, rows: c.Step, most: depth + 1}, nil
}

func (*Small) Kind() string   { return "draft" }
func (s *Small) Await() error { return nil }
func (s *Small) Close() error { return s.pool.Close() }

func (s *Small) Cost(depth, sequences int) float64 { return s.times.of(depth, sequences) }

func (*Small) Expected() float64 { return 0 } // it may have much to catch up with

// smallMemory is a sequence of the small model, and the tokens that it has computed.
type smallMemory struct {
	small  *Small
	state  *state.Sequence
	tokens []int32
}

func (s *Small) Begin() Memory { return &smallMemory{small: s, state: s.pool.NewSequence()} }

func (m *smallMemory) Fork() Memory {
	return &smallMemory{small: m.small, state: m.state.Fork(), tokens: slices.Clone(m.tokens)}
}

func (m *smallMemory) Free() {
	m.state.Free()
	m.tokens = nil
}

// Sight ends with the small model's context.
func (m *smallMemory) Sight(tokens []int32) (paid, free int) {
	if len(tokens) >= m.small.context {
		return None, None
	}
	return byModel, None
}

// follow forgets what is not of these tokens.
func (m *smallMemory) follow(tokens []int32) {
	same := 0
	for same < min(len(m.tokens), len(tokens)) && m.tokens[same] == tokens[same] {
		same++
	}
	if m.state.Truncate(same) != nil { // a layer has forgotten what the next row sees
		m.Free()
		return
	}
	m.tokens = m.tokens[:same]
}

// add makes rows of the next n tokens; the last one asks, if any does. false: there is no room.
func (m *smallMemory) add(b *compute.Batch, slot int, tokens []int32, n int, asks bool) bool {
	if m.state.Extend(n) != nil {
		m.Free()
		return false
	}
	for i := range n {
		at := len(m.tokens)
		b.Add(tokens[at], at, slot, asks && i == n-1)
		m.tokens = append(m.tokens, tokens[at])
	}
	return true
}

// Forward reads what is new in prompts, before the model's own step.
func (s *Small) Forward(b *compute.Batch, v *state.View, shares []Share) func(compute.Ops) compute.Tensor {
	var rows compute.Batch
	var states []*state.Sequence
	for _, sh := range shares {
		m, ok := sh.Memory.(*smallMemory)
		if !ok || sh.Rows <= s.most && sh.From+sh.Rows >= len(sh.Tokens) || sh.From+sh.Rows >= s.context {
			continue
		}
		m.follow(sh.Tokens[:sh.From+sh.Rows])
		n := min(sh.From+sh.Rows, len(sh.Tokens)-1) - len(m.tokens) // the last row is read when a draft is wanted
		if n = min(n, s.rows-rows.Rows()); n > 0 && m.add(&rows, len(states), sh.Tokens, n, false) {
			states = append(states, m.state)
		}
	}
	view := s.pool.View(states...)
	forward := func(ops compute.Ops) compute.Tensor { return s.next.Forward(ops, b, v) }
	if rows.Rows() == 0 {
		return forward
	}
	if _, err := s.device.Run(func(ops compute.Ops) compute.Tensor { return s.model.Forward(ops, &rows, view) }); err != nil {
		for _, sh := range shares { // what the fault is worth, the model's own step tells
			if sh.Memory != nil {
				sh.Memory.Free()
			}
		}
	}
	return forward
}

// Draft reads what the sequences have got since, and then what it has guessed itself.
func (s *Small) Draft(asks []*Ask) error {
	var active []*Ask
	for _, a := range asks {
		if a.Depth = min(a.Depth, s.context-len(a.Tokens)); a.Depth > 0 {
			a.memory().(*smallMemory).follow(a.Tokens)
			active = append(active, a)
		}
	}
	for len(active) > 0 {
		rest, err := s.guess(active)
		if err != nil {
			return err
		}
		active = rest
	}
	return nil
}

// guess computes a step of the small model: rows that the asks miss, as many as fit. It returns the asks that want more.
func (s *Small) guess(asks []*Ask) (rest []*Ask, err error) {
	var b compute.Batch
	var states []*state.Sequence
	var asking []*Ask
	behind := false
	for _, a := range asks {
		m := a.memory().(*smallMemory)
		have := len(a.Tokens) + len(a.Drafts)
		n := min(have-len(m.tokens), s.rows-b.Rows())
		if n == 0 { // another step
			rest, behind = append(rest, a), true
			continue
		}
		all := len(m.tokens)+n == have
		text := a.Tokens
		if len(a.Drafts) > 0 {
			text = append(text[:len(text):len(text)], a.Drafts...)
		}
		if !m.add(&b, len(states), text, n, all) {
			continue
		}
		states = append(states, m.state)
		if all {
			asking = append(asking, a)
		} else {
			rest, behind = append(rest, a), true
		}
	}
	if len(states) == 0 {
		return nil, nil
	}
	began := time.Now()
	view, rows := s.pool.View(states...), b.Rows()
	b.Pad(s.device.Padded(rows), s.device.Padded(len(asking)))
	picks, err := s.device.Sample(func(ops compute.Ops) compute.Tensor { return s.model.Forward(ops, &b, view) }, compute.Repeated(draws(asking), len(b.Logits)))
	if err != nil {
		return nil, fmt.Errorf("spec: a guess of the draft model: %w", err)
	}
	if !behind && rows <= len(asking)*s.most {
		s.times.learn(len(asking[0].Drafts), len(asking), time.Since(began).Seconds())
	}
	for i, a := range asking {
		p := picks[i]
		if p.Err != nil || int(p.Token) >= s.next.Vocab { // the small one has room for tokens that nobody has
			continue
		}
		if a.Drafts = append(a.Drafts, p.Token); len(a.Drafts) < a.Depth {
			rest = append(rest, a)
		}
	}
	return rest, nil
}
