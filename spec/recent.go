package spec

import "memra/model"

// recent is the tokens that a layer's guesses are of: those that sequences had last, each at a place of what the layer multiplies by
// (compute.Choice). Text repeats its tokens, and those that a layer guesses right above all: of 100 right guesses of the built-in model in Go
// code, 97 are among the last 1,024 tokens that differ, and 67 among the 1,024 with the smallest numbers.
//
// A token that has no place gets that of one which was not seen again since the hand went by last (a clock).
type recent struct {
	places []int32 // by token; none: -1
	tokens []int32 // by place
	seen   []bool  // by place: once more, since the hand went by
	hand   int
	dirty  []bool  // by place: its token is new
	fresh  []int32 // the places that are dirty
}

// chosen is how many tokens of a vocabulary guesses are of; 0: all. A right token that is not among them costs a step less than what the
// others would cost each guess.
func chosen(vocab int) int {
	const part, least, strip = 8, 1024, 64 // strip: outputs that a device multiplies together
	n := (max(vocab/part, least) + strip - 1) / strip * strip
	if n > vocab/2 {
		return 0
	}
	return n
}

// ChosenBytes is what the rows of the output matrix take, at most, that guesses of a family's layer are drawn from.
func ChosenBytes(layer model.Drafter) int {
	const most = 2 // bytes of a value
	w := layer.Guesses()
	return most * chosen(w.Rows) * w.Width
}

// newRecent begins with the smallest numbers, which in many vocabularies are the commonest tokens.
func newRecent(vocab, places int) *recent {
	r := &recent{places: make([]int32, vocab), tokens: make([]int32, places), seen: make([]bool, places), dirty: make([]bool, places)}
	for t := range r.places {
		r.places[t] = -1
	}
	for p := range r.tokens {
		r.put(int32(p), int32(p))
	}
	return r
}

// put gives a place to a token.
func (r *recent) put(place, token int32) {
	r.places[token], r.tokens[place] = place, token
	if !r.dirty[place] {
		r.dirty[place], r.fresh = true, append(r.fresh, place)
	}
}

// see hears of tokens that a sequence has.
func (r *recent) see(tokens []int32) {
	for _, t := range tokens {
		if p := r.places[t]; p >= 0 {
			r.seen[p] = true
			continue
		}
		for r.seen[r.hand] {
			r.seen[r.hand] = false
			r.next()
		}
		r.places[r.tokens[r.hand]] = -1
		r.put(int32(r.hand), t)
		r.next()
	}
}

func (r *recent) next() { r.hand = (r.hand + 1) % len(r.tokens) }

// changed are the places whose tokens are others than when it was asked last, and these tokens.
func (r *recent) changed() (places, tokens []int32) {
	places, r.fresh = r.fresh, nil
	for _, p := range places {
		tokens, r.dirty[p] = append(tokens, r.tokens[p]), false
	}
	return places, tokens
}
