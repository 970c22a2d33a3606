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
// that would have been drawn in the time that it takes. step is how long a step of so many rows takes, and draft, guessing one token after
// so many drafts for each of so many sequences.
func better(rows int, a, b choice, step func(int) float64, draft func(int, int) float64) choice {
	worth := func(c choice) (most float64) {
		rate, tokens, guessing := float64(rows)/step(rows), 0.0, 0.0
		for i, p := range c.chances {
			tokens += p
			if !c.free {
				guessing += draft(i, 1)
			}
			most = max(most, tokens-rate*(step(rows+i+1)-step(rows)+guessing))
		}
		return most
	}
	if worth(b) > worth(a) {
		return b
	}
	return a
}

// prices are what steps and guesses take, in seconds, and what may be risked.
type prices struct {
	step  func(rows int) float64             // a step of so many rows
	draft func(depth, sequences int) float64 // guessing a token after so many drafts for each of so many sequences
	dares func(rows int, loss float64) bool
	round func(rows int) int // up to a size that steps with drafts may have
}

// place is a guess that could be made.
type place struct {
	sequence int
	chance   float64
}

// places are all guesses that could be made, the best first. Those of a sequence stay in their order, for their chances fall.
func places(choices []choice) []place {
	var order []place
	for i, c := range choices {
		for _, p := range c.chances {
			order = append(order, place{i, p})
		}
	}
	slices.SortStableFunc(order, func(a, b place) int { return cmp.Compare(b.chance, a.chance) })
	return order
}

// depths is how many drafts of each sequence pay, of a step that has so many rows without any.
//
// The best drafts come first, whosever they are; each makes more tokens likely and takes more time; and of all such steps that may be dared
// the one with the most tokens a second is chosen, if that is well above the one without drafts. There are steps of rounded sizes only, unless
// all drafts are made: few have to be known, and a GPU prepares for each.
//
// What a step of a size takes is a guess itself until it was tried. What it may lose is reckoned as if each row took as much as those of a
// step without drafts do: no device is worse.
func depths(rows int, choices []choice, t prices) (chosen []int, pays bool) {
	order := places(choices)
	chosen = make([]int, len(choices))
	depth := make([]int, len(choices))
	var deep []int // sequences for which a guess is made at each depth
	tokens, guessing, plain := float64(rows), 0.0, t.step(rows)
	best := gain * tokens / plain
	for n, p := range order {
		at := depth[p.sequence]
		depth[p.sequence]++
		if !choices[p.sequence].free {
			for at >= len(deep) {
				deep = append(deep, 0)
			}
			guessing += t.draft(at, deep[at]+1) - t.draft(at, deep[at])
			deep[at]++
		}
		tokens += p.chance
		size := rows + n + 1
		if size != t.round(size) && n < len(order)-1 {
			continue
		}
		if rate := tokens / (t.step(size) + guessing); rate > best && t.dares(size, guessing+plain*(float64(size)-tokens)/float64(rows)) {
			best, pays = rate, true
			copy(chosen, depth)
		}
	}
	return chosen, pays
}

// fewest is the smallest step with drafts: of the best ones as many as make a size.
func fewest(rows int, choices []choice, round func(int) int) []int {
	chosen := make([]int, len(choices))
	for i, p := range places(choices) {
		if i == round(rows+1)-rows {
			break
		}
		chosen[p.sequence]++
	}
	return chosen
}
