package spec

import "memra/compute"

// MostDepth is the most drafts of a sequence in a step: with the row before them they are fewer than a page's rows, so that any of them
// can be dropped again (state.Sequence.Truncate).
const MostDepth = compute.Page - 1

// counted is how many depths have a count of their own; deeper drafts are as good as the last of them.
const counted = 8

// acceptance is how often drafts came true, by depth: of those whose predecessors all did. Old trials fade.
type acceptance struct {
	tried, kept [counted]float64
	memory      float64 // trials that it remembers, about
}

// unasked is in how many rounds what was counted at a depth fades that nobody asks for any more: a few drafts there that were wrong would
// otherwise be all that is ever known of it.
const unasked = 64

// learn hears of a round: so many drafts, the first of which came true.
func (a *acceptance) learn(drafted, accepted int) {
	fade := 1 - 1/a.memory
	for i := range min(drafted, accepted+1) {
		at := min(i, counted-1)
		a.tried[at] = fade*a.tried[at] + 1
		a.kept[at] *= fade
		if i < accepted {
			a.kept[at]++
		}
	}
	for i := drafted; i < counted; i++ {
		a.tried[i] *= 1 - 1.0/unasked
		a.kept[i] *= 1 - 1.0/unasked
	}
}

// rate is how likely a draft at depth i comes true after its predecessors did, as far as is known: what was counted, and so much belief
// in what it would be otherwise.
func (a *acceptance) rate(i int, otherwise, belief float64) float64 {
	i = min(i, counted-1)
	return (a.kept[i] + belief*otherwise) / (a.tried[i] + belief)
}

const (
	hope   = 0.6 // that a draft comes true of which nothing is known
	belief = 4.0 // how many trials of its own a sequence weighs against what is known of others, or a depth against the one before it
)

// rates are the chances of each of n drafts that its predecessors were right and it is, too: of a sequence by its own counts, by those of
// all sequences where it has few, and by the depth before where nobody has been so deep.
func rates(own, all *acceptance, n int) []float64 {
	out := make([]float64, n)
	chance, before := 1.0, hope
	for i := range out {
		before = all.rate(i, before, belief)
		chance *= own.rate(i, before, belief)
		out[i] = chance
	}
	return out
}
