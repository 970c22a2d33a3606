package spec

import (
	"errors"
	"fmt"
	"slices"
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
// The layer has keys and values of its own. A prompt's rows are remembered in the steps that compute them. Rows of a sequence that
// decodes wait as they left the model: it is not known at once which drafts are right, and while nothing is guessed they need not be
// remembered at all. They are with the next guess, so that the layer never sees a guess where the model's own row is to be had; or when
// they get too many, if there have been guesses lately. A sequence whose rows were not all seen, because they came from a cache or
// went by while nothing was guessed, begins where they were: the layer's positions count from there.
//
// A guess needs not the whole output matrix, which is most of what a guess would read: where the vocabulary is large, it is one of the tokens
// that sequences had lately. Another one is never guessed.
type Head struct {
	device    compute.Device
	model     *model.Model
	layer     model.Drafter
	pool      *state.Pool
	kept      compute.RowMemory // what the model made of rows that wait
	guessed   compute.RowMemory // what the layer made of its last rows
	choice    compute.Choice    // the rows of the output matrix that guesses are drawn from; nil: all
	recent    *recent           // which they are
	most      int               // rows of a sequence in a step, but for prompts
	wait      int               // rows of a sequence that can wait
	places    []int             // in kept, where nobody's rows wait
	times     guesses
	expected  float64   // of the last Draft, in seconds
	surprised bool      // part of it took what is not known
	last      time.Time // when the last guess was known
	pending   *guess    // is not; nil: all are
	kernels   bool      // the device's steps are made of kernels, so that more operations cost more than more rows
}

// waiting is how many rows of a sequence wait, beside those of a step: as many as the step may have that remembers them.
const waiting = compute.Page

// NewHead reserves what the layer of a model needs for sequences of c with drafts up to a depth. ErrNoHead: the model has none.
func NewHead(d compute.Device, m *model.Model, c state.Config, depth int) (h *Head, err error) {
	layer, ok := m.Family.(model.Drafter)
	if !ok || len(layer.DraftState()) == 0 {
		return nil, ErrNoHead
	}
	h = &Head{device: d, model: m, layer: layer, most: depth + 1, wait: waiting + depth + 1}
	for i := range c.Sequences {
		h.places = append(h.places, i*h.wait)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("spec: %w", err), h.Close())
		}
	}()
	if h.pool, err = state.NewPool(d, layer.DraftState(), c); err != nil {
		return h, err
	}
	if h.kept, err = d.NewRows(c.Sequences*h.wait, layer.FeatureWidth()); err != nil {
		return h, err
	}
	if h.guessed, err = d.NewRows(c.Sequences, layer.FeatureWidth()); err != nil {
		return h, err
	}
	return h, h.choose()
}

// choose makes room for the rows of the output matrix that guesses are drawn from, where those are not all.
func (h *Head) choose() error {
	w := h.layer.Guesses()
	n := chosen(w.Rows)
	if n == 0 {
		return nil
	}
	choice, err := h.device.NewChoice(w, n)
	if errors.Is(err, compute.ErrNoChoice) {
		return nil
	}
	if err != nil {
		return err
	}
	h.choice, h.recent = choice, newRecent(w.Rows, n)
	places, tokens := h.recent.changed()
	return h.take(places, tokens) // now, for the first guess has enough to do
}

// take has the choice hold tokens.
func (h *Head) take(places, tokens []int32) error {
	_, err := h.device.Run(func(ops compute.Ops) compute.Tensor {
		ops.Choose(h.choice, places, tokens)
		return compute.Tensor{}
	})
	return err
}

// news has the choice hold the tokens that are new in recent, but for a few, which the next guess chooses first. A device that prepares gets
// as many of them with any guess, for each number would be another list of launches.
func (h *Head) news() (places, tokens []int32, err error) {
	if h.choice == nil {
		return nil, nil, nil
	}
	const few = 8
	places, tokens = h.recent.changed()
	if n := len(places) - few; n > 0 {
		err = h.take(places[:n], tokens[:n])
		places, tokens = places[n:], tokens[n:]
	}
	if prepares(h.device.Padded) {
		if len(places) == 0 {
			places, tokens = []int32{0}, h.recent.tokens[:1:1]
		}
		places, tokens = compute.Repeated(places, few), compute.Repeated(tokens, few)
	}
	return places, tokens, err
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
	if h.choice != nil {
		errs = append(errs, h.choice.Close())
	}
	return errors.Join(errs...)
}

func (h *Head) Cost(depth, sequences int) float64 { return h.times.of(depth, sequences) }

func (h *Head) Expected() float64 {
	if h.surprised {
		return 0
	}
	return h.expected
}

// headMemory is what the layer remembers of a sequence: its positions from base on.
type headMemory struct {
	head  *Head
	state *state.Sequence
	base  int

	place      int // in Head.kept, of the rows that wait; none: -1
	from, rows int // they are so many from position `from` on
	guessed    bool
	seen       int // tokens that Head.recent has heard of
}

func (h *Head) Begin() Memory { return &headMemory{head: h, state: h.pool.NewSequence(), place: -1} }

// Fork shares the layer's keys and values, and nothing that waits.
func (m *headMemory) Fork() Memory {
	return &headMemory{head: m.head, state: m.state.Fork(), base: m.base, place: -1, seen: m.seen}
}

func (m *headMemory) Free() {
	m.state.Free()
	m.base, m.rows, m.seen = 0, 0, 0
	if m.place >= 0 {
		m.head.places = append(m.head.places, m.place)
		m.place = -1
	}
}

// Sight needs what the model made of the token before the last.
func (m *headMemory) Sight(tokens []int32) (paid, free int) {
	if before := len(tokens) - 2; m.rows == 0 || before < m.from || before >= m.from+m.rows {
		return None, None
	}
	return byModel, None
}

// hear tells of the sequence's tokens which may be guessed. The last may not be known yet (compute.Drawn).
func (m *headMemory) hear(tokens []int32) {
	if n := len(tokens); n > 0 && tokens[n-1] < 0 {
		tokens = tokens[:n-1]
	}
	if r := m.head.recent; r != nil {
		r.see(tokens[min(m.seen, len(tokens)):])
		m.seen = len(tokens)
	}
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

// hold makes so many rows of a step from a position on wait, behind those before them that do. It says where the first is kept, and
// how many that wait have to be remembered in the same step, to make room; false: there is no place.
func (m *headMemory) hold(from, n int) (place, full int, ok bool) {
	h := m.head
	if m.place < 0 {
		if len(h.places) == 0 {
			return 0, 0, false
		}
		m.place, m.rows, h.places = h.places[len(h.places)-1], 0, h.places[:len(h.places)-1]
	}
	if m.rows == 0 || from < m.from || from > m.from+m.rows { // none wait, or others
		m.from = from
	}
	m.rows = from - m.from // and not the drafts that were wrong
	if m.rows+n > h.wait {
		full, m.from, m.rows = m.rows, from, 0
	}
	place = m.place + m.rows
	m.rows += n
	return place, full, true
}

// Forward has the layer remember rows whose next token is known, and keeps the others.
func (h *Head) Forward(b *compute.Batch, s *state.View, shares []Share) func(compute.Ops) compute.Tensor {
	var keep, places, waited []int32
	var states []*state.Sequence
	var known, late compute.Batch // rows of this step; rows that have waited, of which late has as many
	for range b.Rows() {
		known.Add(0, 0, -1, false)
	}
	remember := false
	for _, sh := range shares {
		m, ok := sh.Memory.(*headMemory)
		if !ok {
			continue
		}
		m.hear(sh.Tokens)
		n := 0 // rows that are remembered
		switch {
		case sh.From+sh.Rows < len(sh.Tokens): // a prompt's chunk
			n = sh.Rows
		case sh.Rows > h.most: // a prompt's last
			n = sh.Rows - 1
		}
		if n > 0 && m.extend(sh.From, n) {
			for i := range n {
				r := sh.Row + i
				known.Tokens[r], known.Positions[r], known.Slots[r] = sh.Tokens[sh.From+i+1], int32(sh.From+i-m.base), int32(len(states))
			}
			states, remember = append(states, m.state), true
		}
		if n > 0 {
			m.rows = 0
		}
		if n == sh.Rows {
			continue
		}
		first, was := m.place, m.from
		place, full, ok := m.hold(sh.From+n, sh.Rows-n)
		if !ok {
			continue
		}
		for i := range sh.Rows - n {
			keep, places = append(keep, int32(sh.Row+n+i)), append(places, int32(place+i))
		}
		if full > 0 && m.guessed && m.extend(was, full) {
			for i := range full {
				late.Add(sh.Tokens[was+i+1], was+i-m.base, len(states), false)
				waited = append(waited, int32(first+i))
			}
			states, m.guessed = append(states, m.state), false
		}
	}
	view := h.pool.View(states...)
	keep, places = compute.Repeated(keep, h.device.Padded(len(keep))), compute.Repeated(places, h.device.Padded(len(places)))
	waited = h.pad(&late, waited)
	return func(ops compute.Ops) compute.Tensor {
		x := h.layer.Features(ops, b, s)
		if remember {
			h.layer.Remember(ops, &known, x, view)
		}
		if late.Rows() > 0 {
			h.layer.Remember(ops, &late, ops.Kept(h.kept, waited), view)
		}
		logits := h.layer.Logits(ops, b, x) // before a copy, which would part what a GPU computes at a stretch
		ops.Keep(h.kept, x, keep, places)
		return logits
	}
}

// Draft guesses a token for each sequence in a step of the layer, as long as any wants more. Where many rows of a sequence have waited, all but
// the last are only remembered; where steps are not made of kernels, so are few.
//
// Where the device takes a step in while one runs, a guess is begun before the one that it follows is known, unless that may change how it is drawn.
func (h *Head) Draft(asks []*Ask) error {
	h.kernels = h.kernels || h.device.Kernels() > 0
	h.expected, h.surprised = 0, false
	var active []*Ask
	var b, late compute.Batch
	var hidden, waited []int32
	for _, a := range asks {
		m := a.memory().(*headMemory)
		m.hear(a.Tokens)
		n := len(a.Tokens) - 1 - m.from
		if a.Depth == 0 || !m.extend(m.from, n) {
			continue
		}
		for i := range n {
			to, from := &b, &hidden
			if i < n-1 && (n > h.most || !h.kernels) {
				to, from = &late, &waited
			}
			to.Add(a.Tokens[m.from+i+1], m.from+i-m.base, len(active), i == n-1)
			*from = append(*from, int32(m.place+i))
		}
		m.guessed, m.rows = true, 0
		active = append(active, a)
	}
	if len(active) == 0 {
		return nil
	}
	return h.guess(active, &b, hidden, &late, waited)
}

// guess is guesses for some asks: the first of a batch, after rows that have waited. The last may be left for Await.
func (h *Head) guess(asks []*Ask, b *compute.Batch, hidden []int32, late *compute.Batch, waited []int32) error {
	_, overlaps := h.device.(compute.Overlapping)
	overlaps = overlaps && !slices.ContainsFunc(asks, func(a *Ask) bool { return !a.Blind })
	g, err := h.begin(0, asks, b, h.kept, hidden, late, waited)
	for err == nil && g != nil {
		if !overlaps {
			if err := h.known(g); err != nil {
				return err
			}
		}
		var deeper []*Ask
		var b compute.Batch
		hidden = hidden[:0]
		for i, a := range g.asks {
			m := a.memory().(*headMemory)
			if a.Depth <= g.depth+1 || m.state.Extend(1) != nil {
				continue
			}
			b.Add(a.Drafts[g.depth], m.state.Len()-1, len(deeper), true)
			hidden = append(hidden, int32(i))
			deeper = append(deeper, a)
		}
		var next *guess
		if len(deeper) > 0 {
			next, err = h.begin(g.depth+1, deeper, &b, h.guessed, hidden, new(compute.Batch), nil)
		}
		switch {
		case overlaps && next == nil && err == nil:
			h.pending = g
		case overlaps:
			err = errors.Join(err, h.known(g))
		}
		g = next
	}
	return err
}

// Await: see Drafter. What the guess took is the time that somebody waited for it, for meanwhile the host has begun the step.
func (h *Head) Await() error {
	g := h.pending
	if h.pending = nil; g == nil {
		return nil
	}
	since := time.Now()
	_, err := h.finish(g)
	if err == nil {
		h.learn(g, g.host+time.Since(since))
	}
	return err
}

// guess is a step of the layer under way.
type guess struct {
	depth int
	asks  []*Ask // in the order of the rows that are left in Head.guessed
	late  int    // rows that are remembered before
	began time.Time
	host  time.Duration // that it took to begin
	wait  func() ([]sample.Pick, error)
}

// begin computes rows of the layer, after rows that have waited, from which the guess at a depth of each ask is drawn.
func (h *Head) begin(depth int, asks []*Ask, b *compute.Batch, memory compute.RowMemory, hidden []int32, late *compute.Batch, waited []int32) (*guess, error) {
	g := &guess{depth: depth, asks: asks, late: late.Rows(), began: time.Now()}
	hidden, waited = h.pad(b, hidden), h.pad(late, waited)
	draws, states := compute.Repeated(draws(asks), len(b.Logits)), make([]*state.Sequence, len(asks))
	for i, a := range asks {
		states[i] = a.memory().(*headMemory).state
	}
	first := make([]int32, len(asks)) // where the layer's rows of the asks lie
	for i := range first {
		first[i] = int32(i)
	}
	first = compute.Repeated(first, len(b.Logits))
	view := h.pool.View(states...)
	chosen, tokens, err := h.news()
	if err != nil {
		return nil, fmt.Errorf("spec: choosing what may be guessed: %w", err)
	}
	g.wait, err = compute.Start(h.device, func(ops compute.Ops) compute.Tensor {
		if late.Rows() > 0 {
			h.layer.Remember(ops, late, ops.Kept(h.kept, waited), view)
		}
		ops.Keep(h.guessed, h.layer.Draft(ops, b, ops.Kept(memory, hidden), view), b.Logits, first)
		next := ops.Kept(h.guessed, first)
		if h.choice == nil {
			return ops.MatMul(next, h.layer.Guesses())
		}
		if len(chosen) > 0 {
			ops.Choose(h.choice, chosen, tokens)
		}
		return ops.MatMulChosen(next, h.choice)
	}, draws)
	if err != nil {
		return nil, fmt.Errorf("spec: a guess of the model's own layer: %w", err)
	}
	for i, a := range asks {
		a.Drafts = append(a.Drafts, compute.Drawn(i))
	}
	g.host = time.Since(g.began)
	return g, nil
}

// known waits for guesses, and learns how long they took.
func (h *Head) known(g *guess) error {
	took, err := h.finish(g)
	if err == nil {
		h.learn(g, took)
	}
	return err
}

// learn hears how long guesses took.
func (h *Head) learn(g *guess, took time.Duration) {
	cost := h.times.of(g.depth, len(g.asks))
	h.expected += cost
	if g.late > h.most*len(g.asks) { // it is remembering that takes time
		h.surprised = true
		return
	}
	h.surprised = h.surprised || cost == 0
	h.times.learn(g.depth, len(g.asks), took.Seconds())
}

// finish waits for guesses, which take their places among their asks' drafts. It returns the time since they were begun, or since those before them
// were known.
func (h *Head) finish(g *guess) (took time.Duration, err error) {
	picks, err := g.wait()
	if err != nil {
		return 0, fmt.Errorf("spec: a guess of the model's own layer: %w", err)
	}
	if g.began.Before(h.last) { // and waited for the one before
		g.began = h.last
	}
	h.last = time.Now()
	for i, a := range g.asks {
		switch p := picks[i]; {
		case len(a.Drafts) <= g.depth: // one before gave none
		case p.Err != nil: // it gets no more
			a.Depth, a.Drafts = g.depth, a.Drafts[:g.depth]
		default:
			a.Drafts[g.depth] = p.Token
		}
	}
	return h.last.Sub(g.began), nil
}

// pad brings a batch to a shape that the device likes, and what of each row is given with it. Rows and asks vary apart from each other, so their
// numbers are rounded more than a step's.
func (h *Head) pad(b *compute.Batch, of []int32) []int32 {
	if prepares(h.device.Padded) {
		b.Pad(powerOfTwo(b.Rows()), powerOfTwo(len(b.Logits)))
	}
	return compute.Repeated(of, b.Rows())
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
