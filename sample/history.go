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
	at      map[int32]int32 // index into entries

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
		h.entries[h.entry(token)].bias = b
	}
	for _, token := range p.Banned {
		h.entries[h.entry(token)].bias = float32(math.Inf(-1))
	}
	if p.DRY.on() {
		h.dry = newDryIndex(p.DRY)
	}
	if !p.looksBack() {
		h.fixed = h.adjustments()
	}
	return h, nil
}

// Clone returns a history that goes on by itself.
func (h *History) Clone() *History {
	c := *h
	c.tokens, c.entries, c.at = slices.Clone(h.tokens), slices.Clone(h.entries), maps.Clone(h.at)
	if h.dry != nil {
		c.dry = h.dry.clone()
	}
	return &c
}

// Len is how many tokens the history has.
func (h *History) Len() int { return h.n }

// Append adds tokens at the end.
func (h *History) Append(tokens ...int32) {
	if !h.params.looksBack() {
		h.n += len(tokens)
		return
	}
	for _, t := range tokens {
		if h.params.penalises() {
			h.count(t, 1)
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
	if !h.params.looksBack() {
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
				h.count(h.tokens[h.n-w], 1)
			}
		}
	}
}

// Draw is the draw of the row of the last token.
func (h *History) Draw() Draw {
	d := Draw{Params: h.params, Position: h.n - 1, Adjust: h.fixed, adjusted: true}
	if h.params.looksBack() {
		d.Adjust = h.adjustments()
	}
	return d
}

// entry is the index of a token's entry, which is made where there is none.
func (h *History) entry(token int32) int32 {
	i, ok := h.at[token]
	if !ok {
		i = int32(len(h.entries))
		h.at[token] = i
		h.entries = append(h.entries, entry{token: token})
	}
	return i
}

// count changes how often a token is within the window; an entry that says nothing goes.
func (h *History) count(token int32, by int32) {
	i := h.entry(token)
	e := &h.entries[i]
	if e.count += by; e.count != 0 || e.bias != 0 {
		return
	}
	last := len(h.entries) - 1
	h.entries[i] = h.entries[last]
	h.at[h.entries[i].token] = i
	delete(h.at, token)
	h.entries = h.entries[:last]
}

// adjustments are what the entries and DRY come to. Of a token:
//
//	Add = bias - (count·frequency + presence) - DRY's penalty
//
// in float64, each operation rounded; then to float32.
func (h *History) adjustments() []Adjustment {
	p := &h.params
	repeats := p.RepeatPenalty != 0 && p.RepeatPenalty != 1
	var dry map[int32]float64
	if h.dry != nil {
		dry = h.dry.penalties(h.tokens)
	}
	all := make([]Adjustment, 0, len(h.entries)+len(dry))
	for _, e := range h.entries {
		add := float64(e.bias)
		if e.count > 0 {
			add -= float64(float64(e.count)*float64(p.FrequencyPenalty)) + float64(p.PresencePenalty)
		}
		if penalty, ok := dry[e.token]; ok {
			add -= penalty
			delete(dry, e.token)
		}
		all = append(all, Adjustment{e.token, addend(add), repeats && e.count > 0})
	}
	for token, penalty := range dry {
		all = append(all, Adjustment{Token: token, Add: addend(-penalty)})
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
