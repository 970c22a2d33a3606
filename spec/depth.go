package spec

import (
	"cmp"
	"slices"
)

// gain is by how much drafts must make a step better than none do: what is measured is not exact, and what is not drafted costs nothing.
const gain = 1.03

// depths is how many drafts of each sequence pay, of a step that has so many rows without any. chances[i][j] is that of sequence i's
// draft at depth j to be kept; step is how long a step of so many rows takes, and draft, guessing one token for each of so many sequences.
//
// The best drafts come first, whosever they are; each makes more tokens likely and takes more time; and of all such steps the one with
// the most tokens a second is chosen, if that is well above the one without drafts.
func depths(rows int, chances [][]float64, step, draft func(int) float64) (chosen []int, pays bool) {
	type place struct {
		sequence int
		chance   float64
	}
	var order []place
	for i, c := range chances {
		for _, p := range c { // falling, so that a sequence's drafts stay in their order
			order = append(order, place{i, p})
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(b.chance, a.chance) })
	chosen = make([]int, len(chances))
	depth := make([]int, len(chances))
	var deep []int // sequences that have a draft at each depth
	tokens, guessing := float64(rows), 0.0
	best := gain * tokens / step(rows)
	for n, p := range order {
		at := depth[p.sequence]
		depth[p.sequence]++
		if at == len(deep) {
			deep = append(deep, 0)
		}
		guessing += draft(deep[at]+1) - draft(deep[at])
		deep[at]++
		tokens += p.chance
		if rate := tokens / (step(rows+n+1) + guessing); rate > best {
			best, pays = rate, true
			copy(chosen, depth)
		}
	}
	return chosen, pays
}
