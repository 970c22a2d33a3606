package spec

import (
	"cmp"
	"slices"
)

// gain is by how much drafts must make a step better than none do: what is measured is not exact, and what is not drafted costs nothing.
const gain = 1.05

// choice is guesses that could be made for a sequence.
type choice struct {
	chances []float64 // of each to be kept
	free    bool      // they take no time to make
}

// better is the one of two choices that brings more, for a sequence in a step that has so many rows without drafts: tokens, less those
// that would have been drawn in the time that it takes. step is how long a step of so many rows takes, and draft, guessing one token for each
// of so many sequences.
func better(rows int, a, b choice, step, draft func(int) float64) choice {
	worth := func(c choice) (most float64) {
		rate, tokens := float64(rows)/step(rows), 0.0
		for i, p := range c.chances {
			tokens += p
			time := step(rows+i+1) - step(rows)
			if !c.free {
				time += float64(i+1) * draft(1)
			}
			most = max(most, tokens-rate*time)
		}
		return most
	}
	if worth(b) > worth(a) {
		return b
	}
	return a
}

// depths is how many drafts of each sequence pay, of a step that has so many rows without any.
//
// The best drafts come first, whosever they are; each makes more tokens likely and takes more time; and of all such steps the one with
// the most tokens a second is chosen, if that is well above the one without drafts. Sizes that are rounded ones are preferred, for a GPU
// prepares for each.
func depths(rows int, choices []choice, step, draft func(int) float64) (chosen []int, pays bool) {
	type place struct {
		sequence int
		chance   float64
	}
	var order []place
	for i, c := range choices {
		for _, p := range c.chances { // falling, so that a sequence's drafts stay in their order
			order = append(order, place{i, p})
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(b.chance, a.chance) })
	chosen = make([]int, len(choices))
	depth := make([]int, len(choices))
	var deep []int // sequences for which a guess is made at each depth
	tokens, guessing := float64(rows), 0.0
	best := gain * tokens / step(rows)
	for n, p := range order {
		at := depth[p.sequence]
		depth[p.sequence]++
		if !choices[p.sequence].free {
			for at >= len(deep) {
				deep = append(deep, 0)
			}
			guessing += draft(deep[at]+1) - draft(deep[at])
			deep[at]++
		}
		tokens += p.chance
		size := rows + n + 1
		if size != rounded(size) && n < len(order)-1 {
			continue
		}
		if rate := tokens / (step(size) + guessing); rate > best {
			best, pays = rate, true
			copy(chosen, depth)
		}
	}
	return chosen, pays
}
