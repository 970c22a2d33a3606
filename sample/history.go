package sample

import (
	"maps"
	"math"
	"slices"
)

// A History is the tokens of a sequence, given and generated alike, as far as drawing from them goes. It makes the Draw of the row
// of its last token:
//
//	h, err := sample.NewHistory(params, vocab)
//	h.Append(prompt...)
//	d := h.Draw()      // what to ask of the row of the prompt's last token
//	h.Append(drafts...) // or the token that was drawn
//	h.Truncate(n)      // drafts that were not accepted go again
//
// A Draw stays what it is when the history goes on, so the rows of several drafts may be asked in one step. Append and Truncate
// take constant time a token, whatever the length; Draw takes time for each distinct token within the windows of the penalties,
// and none where nothing looks back. Clone is for sequences that part. It is not safe for concurrent use.
type History struct {
	params Params
	fixed  []Adjustment // where nothing looks back: the adjustments of every draw
	n      int          // tokens
	tokens []int32      // they, where something looks back

	entries []entry         // tokens with a bias, or within the window of penalties
	ready   []Adjustment    // what each comes to
	at      map[int32]int32 // index of a token into both

	dry *dryIndex // nil: off
}

// entry is what changes a token's logit.
type entry struct {
	token int32
	count int32   // within the window of penalties
	bias  float32 // -Inf: banned
}

// NewHistory makes the history of an empty sequence. Its errors are those of Validate and Fits.
func NewHistory(p Params, vocab int) (*History, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := p.Fits(vocab); err != nil {
		return nil, err
	}
	h := &History{params: p, at: map[int32]int32{}}
	for token, b := range p.Bias {
		h.change(token, func(e *entry) { e.bias = b })
	}
	for _, token := range p.Banned {
		h.change(token, func(e *entry) { e.bias = float32(math.Inf(-1)) })
	}
	if p.DRY.on() {
		h.dry = newDryIndex(p.DRY)
	}
	if !p.LooksBack() {
		h.fixed = h.ready
	}
	return h, nil
}

// Clone returns a history that goes on by itself.
func (h *History) Clone() *History {
	c := *h
	c.tokens, c.entries, c.ready, c.at = slices.Clone(h.tokens), slices.Clone(h.entries), slices.Clone(h.ready), maps.Clone(h.at)
	if h.dry != nil {
		c.dry = h.dry.clone()
	}
	return &c
}

// Len is how many tokens the history has.
func (h *History) Len() int { return h.n }

// Append adds tokens at the end.
func (h *History) Append(tokens ...int32) {
	if !h.params.LooksBack() {
		h.n += len(tokens)
		return
	}
	for _, t := range tokens {
		if h.params.penalises() {
			h.count(t, +1)
			if w := h.params.PenaltyLastN; w > 0 && h.n >= w {
				h.count(h.tokens[h.n-w], -1)
			}
		}
		h.tokens = append(h.tokens, t)
		h.n++
		if h.dry != nil {
			h.dry.append(h.tokens)
		}
	}
}

// Truncate forgets all but the first n tokens.
func (h *History) Truncate(n int) {
	if n < 0 || n > h.n {
		panic("sample: a history cannot be cut to more tokens than it has, or fewer than none")
	}
	if !h.params.LooksBack() {
		h.n = n
		return
	}
	for h.n > n {
		h.n--
		t := h.tokens[h.n]
		if h.dry != nil {
			h.dry.remove(t)
		}
		h.tokens = h.tokens[:h.n]
		if h.params.penalises() {
			h.count(t, -1)
			if w := h.params.PenaltyLastN; w > 0 && h.n >= w {
				h.count(h.tokens[h.n-w], +1)
			}
		}
	}
}

// Draw is the draw of the row of the last token.
func (h *History) Draw() Draw {
	d := Draw{Params: h.params, Position: h.n - 1, Adjust: h.fixed, adjusted: true}
	if h.params.LooksBack() {
		d.Adjust = h.adjustments()
	}
	return d
}

// count changes how often a token is within the window.
func (h *History) count(token int32, by int32) {
	h.change(token, func(e *entry) { e.count += by })
}

// change changes a token's entry, which is made where there is none, and goes if it says nothing.
func (h *History) change(token int32, how func(*entry)) {
	i, ok := h.at[token]
	if !ok {
		i = int32(len(h.entries))
		h.at[token] = i
		h.entries, h.ready = append(h.entries, entry{token: token}), append(h.ready, Adjustment{})
	}
	e := &h.entries[i]
	how(e)
	if e.count != 0 || e.bias != 0 {
		h.ready[i] = h.adjustment(e, 0)
		return
	}
	last := len(h.entries) - 1
	h.entries[i], h.ready[i] = h.entries[last], h.ready[last]
	h.at[h.entries[i].token] = i
	delete(h.at, token)
	h.entries, h.ready = h.entries[:last], h.ready[:last]
}

// adjustment is what an entry and DRY come to:
//
//	Add = bias - (count·frequency + presence) - DRY's penalty
//
// in float64, each operation rounded; then to float32.
func (h *History) adjustment(e *entry, dry float64) Adjustment {
	p := &h.params
	add := float64(e.bias)
	if e.count > 0 {
		add -= float64(float64(e.count)*float64(p.FrequencyPenalty)) + float64(p.PresencePenalty)
	}
	return Adjustment{e.token, addend(add - dry), e.count > 0 && p.RepeatPenalty != 0 && p.RepeatPenalty != 1}
}

// adjustments are those of a draw.
func (h *History) adjustments() []Adjustment {
	if h.dry == nil {
		return slices.Clone(h.ready)
	}
	dry := h.dry.penalties(h.tokens)
	all := append(make([]Adjustment, 0, len(h.ready)+len(dry)), h.ready...)
	for token, penalty := range dry {
		if i, ok := h.at[token]; ok {
			all[i] = h.adjustment(&h.entries[i], penalty)
		} else {
			all = append(all, h.adjustment(&entry{token: token}, penalty))
		}
	}
	return all
}

// addend is what may be added to a logit: finite, or -Inf for a banned token.
func addend(x float64) float32 {
	if math.IsInf(x, -1) {
		return float32(x)
	}
	return float32(max(x, -math.MaxFloat32))
}
